//! The browser side: three wasm modules, the npm package around them, and the search page built from the package.

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
const RELAXED: &str = "relaxed module";
pub(crate) const WEBGPU: &str = "WebGPU module";
const CPU_BOUND: &str = "JavaScript of the CPU module";
const RELAXED_BOUND: &str = "JavaScript of the relaxed module";
const WEBGPU_BOUND: &str = "JavaScript of the WebGPU module";
pub(crate) const SCRIPTS: &str = "package scripts";
pub(crate) const PACKAGE: &str = "package";
pub(crate) const PAGE: &str = "search page";

/// Builds modules, package and page; skips what is up to date.
pub(crate) fn build() -> Outcome {
    run_task("npm", jobs())
}

/// All of it, with the set-up that it needs.
fn jobs() -> Vec<Job> {
    let mut jobs = setup::only(&[setup::NODE, setup::WASM_TARGET, setup::WASM_OPT, setup::PAGE_PACKAGES]);
    jobs.push(tool(Packages::Bindgen));
    jobs.push(cpu_module());
    jobs.extend(later_modules(Needed::Now));
    jobs.push(scripts());
    jobs.push(bound_cpu());
    jobs.extend(bound_later());
    jobs.extend(whole_page(publish));
    jobs
}

/// Builds wasm-bindgen, as one of these packages.
pub(crate) fn tool(packages: Packages) -> Job {
    Job::new(TOOL, &[], move || packages.build(&["--bin", "xtask-bindgen"]))
}

/// Compiles the CPU module.
pub(crate) fn cpu_module() -> Job {
    Job::new(CPU, &[setup::WASM_TARGET], || module::compile(&MODULES[0], Needed::Now))
}

/// Compiles the modules that a first page does without, one after another: cargo lets one build at a time into a
/// folder.
pub(crate) fn later_modules(needed: Needed) -> [Job; 2] {
    [
        Job::new(RELAXED, &[setup::WASM_TARGET, CPU], move || module::compile(&MODULES[1], needed)),
        Job::new(WEBGPU, &[setup::WASM_TARGET, RELAXED], move || module::compile(&MODULES[2], needed)),
    ]
}

/// Returns whether the modules that a first page does without are there.
pub(crate) fn is_whole() -> Outcome<bool> {
    Ok(MODULES[1].is_fresh()? && MODULES[2].is_fresh()?)
}

/// Puts the JavaScript around the CPU module and optimises it.
pub(crate) fn bound_cpu() -> Job {
    Job::new(CPU_BOUND, &[CPU, TOOL, setup::WASM_OPT], || module::bind(&MODULES[0]))
}

/// Does the same with the modules that a first page does without.
pub(crate) fn bound_later() -> [Job; 2] {
    [
        Job::new(RELAXED_BOUND, &[RELAXED, CPU_BOUND, TOOL, setup::WASM_OPT], || module::bind(&MODULES[1])),
        Job::new(WEBGPU_BOUND, &[WEBGPU, TOOL, setup::WASM_OPT], || module::bind(&MODULES[2])),
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
    Job::new(PACKAGE, &[SCRIPTS, CPU_BOUND, RELAXED_BOUND, WEBGPU_BOUND], page::pack)
}

/// Packs the package and builds the page of it; `publish` puts it where it is served.
pub(crate) fn whole_page(publish: fn() -> Outcome) -> [Job; 2] {
    [package(), Job::new(PAGE, &[PACKAGE], move || page::whole(publish))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_package_brings_the_set_up_that_it_needs() {
        assert_eq!(setup::missing(&jobs()), [""; 0]);
    }
}
