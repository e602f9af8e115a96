//! The browser side: the wasm modules, the npm package around them, and the search page built from the package.

mod closures;
mod module;
mod page;

pub(crate) use module::{MODULES, sizes};
pub(crate) use page::{Arrival, publish, publish_beside, tell};

use crate::failure::Outcome;
use crate::jobs::{Job, run_task};
use crate::process::Packages;
use crate::setup;

pub(crate) const TOOL: &str = "wasm-bindgen";
pub(crate) const CPU: &str = "CPU module";
const RELAXED: &str = "CPU module with relaxed SIMD";
pub(crate) const WEBGPU: &str = "WebGPU module";
const CPU_BOUND: &str = "JavaScript of the CPU module";
const RELAXED_BOUND: &str = "JavaScript of the CPU module with relaxed SIMD";
const WEBGPU_BOUND: &str = "JavaScript of the WebGPU module";
pub(crate) const SCRIPTS: &str = "package scripts";
pub(crate) const PACKAGE: &str = "package";
pub(crate) const PAGE: &str = "search page";

/// Builds modules, package and page; skips what is up to date.
pub(crate) fn build() -> Outcome {
    let mut jobs = setup::only(&[setup::NODE, setup::WASM_TARGET, setup::WASM_OPT, setup::PAGE_PACKAGES]);
    jobs.push(tool(Packages::Bindgen));
    jobs.extend(cpu_modules());
    jobs.extend([webgpu_module(), scripts()]);
    jobs.extend(bound());
    jobs.extend(whole_page(publish));
    run_task("npm", jobs)
}

/// Builds wasm-bindgen, as one of these packages.
pub(crate) fn tool(packages: Packages) -> Job {
    Job::new(TOOL, &[], move || packages.build(&["--bin", "xtask-bindgen"]))
}

/// Compiles the CPU modules, one after the other: cargo lets one build at a time into a folder. All that they have in
/// common but `dpr-core` is compiled once.
pub(crate) fn cpu_modules() -> [Job; 2] {
    [
        Job::new(CPU, &[setup::WASM_TARGET], || module::compile(&MODULES[0])),
        Job::new(RELAXED, &[setup::WASM_TARGET, CPU], || module::compile(&MODULES[1])),
    ]
}

/// Compiles the WebGPU module, after the others.
pub(crate) fn webgpu_module() -> Job {
    Job::new(WEBGPU, &[setup::WASM_TARGET, RELAXED], || module::compile(&MODULES[2]))
}

/// Puts the JavaScript around the modules and optimises them: those of the CPU, then that of WebGPU.
pub(crate) fn bound() -> [Job; 3] {
    [
        Job::new(CPU_BOUND, &[CPU, TOOL, setup::WASM_OPT], || module::bind(&MODULES[0])),
        // Its JavaScript is held against the other's.
        Job::new(RELAXED_BOUND, &[RELAXED, CPU_BOUND], || module::bind_beside(&MODULES[1], &MODULES[0])),
        Job::new(WEBGPU_BOUND, &[WEBGPU, TOOL, setup::WASM_OPT], || module::bind(&MODULES[2])),
    ]
}

/// Compiles the package's TypeScript.
pub(crate) fn scripts() -> Job {
    Job::new(SCRIPTS, &[setup::PAGE_PACKAGES], page::scripts)
}

/// Builds the page with the CPU modules alone.
pub(crate) fn early_page() -> Job {
    Job::new(PAGE, &[SCRIPTS, RELAXED_BOUND], page::early)
}

/// Packs the package as it would be published.
pub(crate) fn package() -> Job {
    Job::new(PACKAGE, &[SCRIPTS, RELAXED_BOUND, WEBGPU_BOUND], page::pack)
}

/// Packs the package and builds the page of it; `publish` puts it where it is served.
pub(crate) fn whole_page(publish: fn() -> Outcome) -> [Job; 2] {
    [package(), Job::new(PAGE, &[PACKAGE], move || page::whole(publish))]
}
