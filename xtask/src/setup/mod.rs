//! `cargo xtask setup`: each step looks first, installs what is missing, and looks again.
//!
//! A step that finds what it needs takes milliseconds, so every task runs the set-up, as jobs beside its own. Besides
//! `target/`, only the `node_modules` of the folders with a lock file are filled, by `npm ci`, and what the system's
//! package manager (as root alone) and rustup install.

mod apt;
pub(crate) mod browsers;
pub(crate) mod cargo_tools;
mod components;
mod models;
mod node;
pub(crate) mod python;
pub(crate) mod tools;
pub(crate) mod wasm_target;

use crate::failure::{Failure, Outcome};
use crate::jobs::{self, Done, Job, say};

pub(crate) const COMPONENTS: &str = "rustfmt and clippy";
pub(crate) const NODE: &str = "Node.js and npm";
pub(crate) const PYTHON: &str = "Python and pip";
pub(crate) const WASM_TARGET: &str = "Rust for wasm32";
pub(crate) const WASM_OPT: &str = "wasm-opt";
pub(crate) const BIOME: &str = "Biome";
pub(crate) const PAGE_PACKAGES: &str = "npm packages";
pub(crate) const STARTER_MODEL: &str = "starter model";
pub(crate) const TEST_PACKAGES: &str = "npm test packages";
pub(crate) const CHROMIUM: &str = "Chromium";
pub(crate) const FIREFOX: &str = "Firefox";
pub(crate) const WEBKIT: &str = "WebKitGTK";
pub(crate) const VULKAN: &str = "Vulkan driver";
pub(crate) const MPNET: &str = "MPNet model";
pub(crate) const PYTHON_TESTS: &str = "Python test packages";
pub(crate) const MILVUS: &str = "Milvus server";
pub(crate) const POSTGRES: &str = "PostgreSQL server";

/// The use that the machine is set up for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    /// Building and serving the demo.
    Demo,
    /// Running the tests too.
    Test,
    /// Running the benches too.
    All,
    /// Running the benches of encoders too, whose engines take 7 GB.
    Encoders,
}

/// One thing the machine must have.
struct Step {
    name: &'static str,
    /// The steps that its installer uses.
    needs: &'static [&'static str],
    /// The smallest scope that needs it.
    scope: Scope,
    /// The reason why it is needed, for the message when it cannot be had.
    why: &'static str,
    /// Says what was found, or nothing.
    find: fn() -> Option<String>,
    /// Says first what it is about to do.
    install: fn() -> Outcome,
}

const STEPS: [Step; 19] = [
    Step {
        name: COMPONENTS,
        needs: &[],
        scope: Scope::Test,
        why: "the format check and the linters are tests",
        find: components::find,
        install: components::install,
    },
    Step {
        name: NODE,
        needs: &[],
        scope: Scope::Demo,
        why: "the npm package, the search page and wasm-opt are built with them",
        find: node::find_node,
        install: node::install_node,
    },
    Step {
        name: PYTHON,
        needs: &[],
        scope: Scope::Demo,
        why: "model weights come from the Python package index",
        find: python::find_python,
        install: python::install_python,
    },
    Step {
        name: WASM_TARGET,
        needs: &[],
        scope: Scope::Demo,
        why: "the question encoder runs in the browser",
        find: wasm_target::find,
        install: wasm_target::install,
    },
    Step {
        name: STARTER_MODEL,
        needs: &[PYTHON],
        scope: Scope::Demo,
        why: "the demo and the tests encode with it",
        find: models::find_minilm,
        install: models::fetch_minilm,
    },
    Step {
        name: PAGE_PACKAGES,
        needs: &[NODE],
        scope: Scope::Demo,
        why: "TypeScript and Vite build the package and the page",
        find: || node::find_packages(&node::PAGE),
        install: || node::install_packages(&node::PAGE),
    },
    Step {
        name: WASM_OPT,
        needs: &[NODE],
        scope: Scope::Demo,
        why: "it makes the browser modules smaller and faster",
        find: || tools::WASM_OPT.find(),
        install: || tools::WASM_OPT.install(),
    },
    Step {
        name: BIOME,
        needs: &[NODE],
        scope: Scope::Test,
        why: "it reads the TypeScript for mistakes",
        find: || tools::BIOME.find(),
        install: || tools::BIOME.install(),
    },
    Step {
        name: VULKAN,
        needs: &[],
        scope: Scope::Test,
        why: "the native GPU path is tested on it; a software driver does where there is no GPU",
        find: tools::find_vulkan,
        install: tools::install_vulkan,
    },
    Step {
        name: MPNET,
        needs: &[PYTHON],
        scope: Scope::Test,
        why: "the MPNet encoder is held against its golden vectors",
        find: models::find_mpnet,
        install: models::fetch_mpnet,
    },
    Step {
        name: MILVUS,
        needs: &[PYTHON],
        scope: Scope::Test,
        why: "the engine for more than one machine is tested against it",
        find: python::find_milvus,
        install: python::install_milvus,
    },
    Step {
        name: POSTGRES,
        needs: &[PYTHON],
        scope: Scope::Test,
        why: "tables with pgvector are tested against it",
        find: python::find_postgres,
        install: python::install_postgres,
    },
    Step {
        name: TEST_PACKAGES,
        needs: &[NODE],
        scope: Scope::Test,
        why: "Playwright drives the browser tests",
        find: || node::find_packages(&node::TESTS),
        install: || node::install_packages(&node::TESTS),
    },
    Step {
        name: CHROMIUM,
        needs: &[],
        scope: Scope::Test,
        why: "the browser tests run in it",
        find: browsers::find_chromium,
        install: browsers::install_chromium,
    },
    Step {
        name: FIREFOX,
        needs: &[],
        scope: Scope::Test,
        why: "pages of the package are asked in it too",
        find: browsers::find_firefox,
        install: browsers::install_firefox,
    },
    Step {
        name: WEBKIT,
        needs: &[],
        scope: Scope::Test,
        why: "pages of the package are asked in it too, as the engine of Safari",
        find: browsers::find_webkit,
        install: browsers::install_webkit,
    },
    Step {
        name: PYTHON_TESTS,
        needs: &[PYTHON],
        scope: Scope::Test,
        why: "transformers must load what dpr writes",
        find: python::find_test_packages,
        install: python::install_test_packages,
    },
    Step {
        name: "Python bench packages",
        needs: &[PYTHON],
        scope: Scope::All,
        why: "sentence-transformers and onnxruntime are what the speed is held against",
        find: python::find_bench_packages,
        install: python::install_bench_packages,
    },
    Step {
        name: "Python encoders",
        needs: &[PYTHON],
        scope: Scope::Encoders,
        why: "LiteRT, OpenVINO and CTranslate2 are what encoding in narrow numbers is held against",
        find: python::find_encoders,
        install: python::install_encoders,
    },
];

/// Brings the machine to where `scope` can run. A second call takes well under a second or two.
pub(crate) fn run(scope: Scope) -> Outcome {
    jobs::run_task("setup", jobs(scope))
}

/// The steps that `scope` needs.
pub(crate) fn jobs(scope: Scope) -> Vec<Job> {
    let steps = STEPS.iter().filter(|step| step.scope <= scope);
    steps.map(|step| Job::new(step.name, step.needs, move || ensure(step)).waiting()).collect()
}

/// The steps of these names.
pub(crate) fn only(names: &[&str]) -> Vec<Job> {
    jobs(Scope::All).into_iter().filter(|job| names.contains(&job.name)).collect()
}

/// Returns the steps that a job of the list needs and that are not in the list themselves.
#[cfg(test)]
pub(crate) fn missing(jobs: &[Job]) -> Vec<&'static str> {
    let is_step = |name: &&str| STEPS.iter().any(|step| step.name == *name);
    let needs = jobs.iter().flat_map(Job::needs).copied().filter(is_step);
    needs.filter(|name| !jobs.iter().any(|job| job.name == *name)).collect()
}

fn ensure(step: &Step) -> Outcome<Done> {
    if let Some(found) = (step.find)() {
        return Ok(Done::note(found));
    }
    let in_step = |failure: Failure| failure.during(&format!("set-up of what is missing ({})", step.why));
    say("missing");
    (step.install)().map_err(in_step)?;
    match (step.find)() {
        Some(found) => Ok(Done::note(format!("{found}, installed"))),
        None => {
            let failure = Failure::new("it was installed without an error and is still not found");
            Err(in_step(failure.fix("read the installer's output above, then run `cargo xtask setup` again")))
        }
    }
}
