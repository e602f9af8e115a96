//! The browser side: two wasm modules, the npm package around them, and the search page built from the package.

mod module;
mod page;

pub(crate) use module::{MODULES, Needed, sizes};
pub(crate) use page::{Arrival, publish, publish_beside, tell};

use crate::failure::Outcome;
use crate::jobs::{Job, run_task};
use crate::process::Packages;
use crate::setup;

pub(crate) const TOOL: &str = "wasm-bindgen";
pub(crate) const CPU: &str = "CPU module";
pub(crate) const WEBGPU: &str = "WebGPU module";
const CPU_BOUND: &str = "JavaScript of the CPU module";
const WEBGPU_BOUND: &str = "JavaScript of the WebGPU module";
pub(crate) const SCRIPTS: &str = "package scripts";
pub(crate) const PACKAGE: &str = "package";
pub(crate) const PAGE: &str = "search page";

/// Builds modules, package and page; skips what is up to date.
pub(crate) fn build() -> Outcome {
    let mut jobs = setup::only(&[setup::NODE, setup::WASM_TARGET, setup::WASM_OPT, setup::PAGE_PACKAGES]);
    jobs.push(tool(Packages::Bindgen));
    jobs.extend([cpu_module(), webgpu_module(Needed::Now), scripts()]);
    jobs.extend(bound());
    jobs.extend(whole_page(publish));
    run_task("npm", jobs)
}

/// Builds wasm-bindgen, as one of these packages.
pub(crate) fn tool(packages: Packages) -> Job {
    Job::new(TOOL, &[], move || packages.build(&["--bin", "xtask-bindgen"]))
}

/// Compiles the CPU module.
pub(crate) fn cpu_module() -> Job {
    Job::new(CPU, &[setup::WASM_TARGET], || module::compile(&MODULES[0], Needed::Now))
}

/// Compiles the WebGPU module, after the other one: cargo lets one build at a time into a folder.
pub(crate) fn webgpu_module(needed: Needed) -> Job {
    Job::new(WEBGPU, &[setup::WASM_TARGET, CPU], move || module::compile(&MODULES[1], needed))
}

/// Puts the JavaScript around the modules and optimises them.
pub(crate) fn bound() -> [Job; 2] {
    [
        Job::new(CPU_BOUND, &[CPU, TOOL, setup::WASM_OPT], || module::bind(&MODULES[0])),
        Job::new(WEBGPU_BOUND, &[WEBGPU, TOOL, setup::WASM_OPT], || module::bind(&MODULES[1])),
    ]
}

/// Compiles the package's TypeScript.
pub(crate) fn scripts() -> Job {
    Job::new(SCRIPTS, &[setup::PAGE_PACKAGES], page::scripts)
}

/// Builds the page with the CPU module alone.
pub(crate) fn early_page() -> Job {
    Job::new(PAGE, &[SCRIPTS, CPU_BOUND], page::early)
}

/// Packs the package as it would be published.
pub(crate) fn package() -> Job {
    Job::new(PACKAGE, &[SCRIPTS, CPU_BOUND, WEBGPU_BOUND], page::pack)
}

/// Packs the package and builds the page of it; `publish` puts it where it is served.
pub(crate) fn whole_page(publish: fn() -> Outcome) -> [Job; 2] {
    [package(), Job::new(PAGE, &[PACKAGE], move || page::whole(publish))]
}
