//! Debian packages.

use std::sync::Mutex;

use crate::failure::{Failure, Outcome};
use crate::jobs::{lock, say};
use crate::process;

/// One at a time, since the system allows no more; whether the lists were fetched.
static UPDATED: Mutex<bool> = Mutex::new(false);

/// Installs Debian packages; needs root, and says the command to type when this process has not.
pub(super) fn install(packages: &[&str]) -> Outcome {
    let list = packages.join(" ");
    if process::find_on_path("apt-get").is_none() {
        let what = format!("this system has no apt-get to install {list}");
        return Err(
            Failure::new(what).fix(format!("install what your system calls {list}, then run this again"))
        );
    }
    let by_hand = format!("sudo apt-get update && sudo apt-get install -y --no-install-recommends {list}");
    if !process::is_root() {
        let what = format!("the Debian packages {list} are missing and only root may install them");
        return Err(Failure::new(what).fix(format!("run `{by_hand}`, then this again")));
    }
    say(&format!("apt-get install {list}"));
    let mut updated = lock(&UPDATED);
    if !*updated {
        // A stale list may still do; when it does not, the install below says so.
        let _ = process::output(&mut apt_get(&["update", "-qq"]));
        *updated = true;
    }
    let mut arguments = vec!["install", "-y", "-qq", "--no-install-recommends"];
    arguments.extend(packages);
    process::output(&mut apt_get(&arguments))
        .map(drop)
        .map_err(|failure| failure.fix(format!("see what `{by_hand}` says; these packages are in Debian 12")))
}

fn apt_get(arguments: &[&str]) -> std::process::Command {
    let mut command = process::command("apt-get", arguments);
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}
