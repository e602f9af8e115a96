//! Makes the binary smaller where the linker can: functions of the same machine code become one, and the addresses
//! that the loader adjusts take a bit each instead of 24 bytes.

use std::env::var;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // The target whose linker is LLD unless the user chose another.
    let is = |name: &str, value: &str| var(name).is_ok_and(|set| set == value);
    let linux = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu");
    let plain = ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"].iter().all(|flags| {
        var(flags).map_or(true, |flags| !flags.contains("linker") && !flags.contains("fuse-ld"))
    });
    if !(linux && is("CARGO_CFG_TARGET_ARCH", "x86_64") && plain) {
        return;
    }
    println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    if var("HOST") == var("TARGET") && loader_knows_packed_addresses() {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Returns `true` if the C library of this machine is at least glibc 2.36, the first that loads packed relative
/// relocations.
fn loader_knows_packed_addresses() -> bool {
    let Ok(output) = Command::new("getconf").arg("GNU_LIBC_VERSION").output() else { return false };
    let text = String::from_utf8_lossy(&output.stdout);
    let Some((major, minor)) = text.trim().strip_prefix("glibc ").and_then(|v| v.split_once('.')) else {
        return false;
    };
    matches!((major.parse::<u32>(), minor.parse::<u32>()), (Ok(2), Ok(minor)) if minor >= 36)
}
