//! The image's final stage as a folder: the program, the libraries it is linked with, certificates, a user, and
//! nothing else.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{Serving, wait_until_ready};
use crate::failure::{Failure, Outcome};
use crate::paths::{DEMO_INDEX, DEMO_MODEL, absolute, dpr};
use crate::process::{command, is_root, output, succeeds};

const ROOT: &str = "target/image/root";
const USER: &str = "10001:10001";
const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";
/// Makes the root read-only for the processes of one mount namespace, and goes into it.
const ENTER: &str =
    "mount --bind \"$0\" \"$0\" && mount -o remount,ro,bind \"$0\" && exec chroot --userspec=\"$@\"";

/// Fills the root and starts a server in it, where this process may.
pub(super) fn run() -> Outcome {
    let root = absolute(ROOT);
    fill(&root)?;
    if !is_root() {
        println!("image: SKIPPED: only root may change its root; {ROOT} is there to look at");
        return Ok(());
    }
    let folder = root.to_string_lossy().into_owned();
    let serve = ["/usr/local/bin/dpr", "serve", "--model", "/data/model", "--index", "/data/index"];
    let mut start = if succeeds(&mut command("unshare", &["--mount", "true"])) {
        let mut start = command("unshare", &["--mount", "sh", "-c", ENTER, &folder]);
        start.args([USER, &folder]);
        start
    } else {
        println!("image: no mount namespaces here: the root is only another user's");
        command("chroot", &[&format!("--userspec={USER}"), &folder])
    };
    start
        .args(serve)
        .args(["--listen", "127.0.0.1:0", "--json"])
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    let (serving, url) = Serving::start(&mut start)?;
    wait_until_ready(&url)?;
    let id = serving.0.id().to_string();
    let user = user_of(&id)?;
    drop(serving);
    match user.as_str() {
        "10001" => Ok(()),
        other => Err(Failure::new(format!("the server in the image ran as the user {other}, not 10001"))),
    }
}

/// The user that a process runs as. `unshare` and `chroot` have become the server by then.
fn user_of(id: &str) -> Outcome<String> {
    let path = format!("/proc/{id}/status");
    let status = fs::read_to_string(&path).map_err(|e| Failure::new(format!("cannot read {path}: {e}")))?;
    let user = status.lines().find_map(|line| line.strip_prefix("Uid:")?.split_whitespace().next());
    Ok(user.unwrap_or_default().to_owned())
}

fn fill(root: &Path) -> Outcome {
    let failed = |e: io::Error| Failure::new(format!("cannot write {}: {e}", root.display()));
    let _ = fs::remove_dir_all(root);
    for folder in ["etc/ssl/certs", "usr/local/bin", "data"] {
        fs::create_dir_all(root.join(folder)).map_err(failed)?;
    }
    fs::write(root.join("etc/passwd"), "dpr:x:10001:10001::/nonexistent:/usr/sbin/nologin\n")
        .map_err(failed)?;
    fs::write(root.join("etc/group"), "dpr:x:10001:\n").map_err(failed)?;
    fs::copy(dpr(), root.join("usr/local/bin/dpr")).map_err(failed)?;
    if Path::new(CERTIFICATES).is_file() {
        fs::copy(CERTIFICATES, root.join(&CERTIFICATES[1..])).map_err(failed)?;
    }
    for library in libraries(&output(&mut command("ldd", &[dpr()]))?) {
        let to = root.join(library.strip_prefix("/").unwrap_or(&library));
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        fs::copy(&library, to).map_err(failed)?;
    }
    for (from, to) in [(DEMO_MODEL, "data/model"), (DEMO_INDEX, "data/index")] {
        output(command("cp", &["-rL", from]).arg(root.join(to)))?;
    }
    // The server's user reads all of it, whatever the umask of this process.
    output(command("chmod", &["-R", "a+rX"]).arg(root)).map(drop)
}

/// Paths in the answer of `ldd`: `libc.so.6 => /lib/libc.so.6 (0x…)` or `/lib64/ld-linux.so.2 (0x…)`.
fn libraries(ldd: &str) -> Vec<PathBuf> {
    let paths = ldd.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    paths.map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_and_the_loader_are_found() {
        let said = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\t\
                    /lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let paths = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"].map(PathBuf::from);
        assert_eq!(libraries(said), paths);
    }
}
