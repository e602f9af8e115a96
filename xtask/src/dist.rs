//! `cargo xtask dist`: `dpr` as it is handed out, optimised across all crates and for size.

use std::fs;

use crate::failure::{Failure, Outcome};
use crate::paths::target_dir;
use crate::process::{self, cargo};

/// Most bytes of the program with the default features.
const LIMIT: u64 = 45_000_000;

/// Builds the program and prints its size.
pub(crate) fn run() -> Outcome {
    process::run(&mut cargo(&[
        "build",
        "--locked",
        "--profile",
        "dist",
        "--package",
        "dpr",
        "--bin",
        "dpr",
    ]))?;
    let program = target_dir().join("dist/dpr");
    let name = program.display();
    let bytes =
        fs::metadata(&program).map_err(|e| Failure::new(format!("cannot look at {name}: {e}")))?.len();
    println!("{name}: {:.1} MB with the default features", bytes as f64 / 1e6);
    if bytes > LIMIT {
        return Err(Failure::new(format!("{name} has {bytes} bytes, more than {LIMIT}"))
            .fix("`cargo bloat` or `nm -S --size-sort` say what grew; crates that compute little belong to opt-level z"));
    }
    Ok(())
}
