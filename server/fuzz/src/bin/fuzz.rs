//! Searches for inputs of the target that the variable `DPR_FUZZ` names, by libFuzzer. `cargo xtask fuzz` builds and
//! runs it.
#![no_main]
#![allow(unsafe_code, reason = "the macro makes the function that libFuzzer calls")]

use std::sync::OnceLock;

use dpr_fuzz::{Target, target};
use libfuzzer_sys::fuzz_target;

/// The target that was chosen.
static TARGET: OnceLock<Target> = OnceLock::new();

fuzz_target!(|data: &[u8]| {
    let chosen = TARGET.get_or_init(|| {
        let name = std::env::var("DPR_FUZZ").unwrap_or_default();
        target(&name).expect("DPR_FUZZ names a target")
    });
    (chosen.run)(data);
});
