//! Hostile and damaged files.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt as _, symlink};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::{Report, folder, index_copy, search_body};
use crate::failure::{Failure, Outcome};
use crate::paths::{DEMO_MODEL, bytes_in, dpr};
use crate::process::{command, succeeds};
use crate::server::Server;
use crate::stamp::hex;

fn failed(error: std::io::Error) -> Failure {
    Failure::new(error.to_string())
}

/// A snapshot whose manifest names files outside it, and a lock that is a link to another file.
pub(super) fn snapshot(report: &mut Report) -> Outcome {
    let folder = folder("snapshot")?;
    let bundle = folder.join("bundle");
    fs::create_dir_all(&bundle).map_err(failed)?;
    let snapshot = PathBuf::from(index_copy(&bundle)?);
    fs::write(bundle.join("pwned"), "attacker").map_err(failed)?;
    fs::write(folder.join("precious"), "keep").map_err(failed)?;
    let version = version_dir(&snapshot)?;
    let manifest_path = version.join("manifest.json");
    let text = fs::read_to_string(&manifest_path).map_err(failed)?;
    let mut manifest = crate::json::json(&text, "manifest.json")?;
    manifest["files"]["../../pwned"] = json!({ "bytes": 8, "sha256": sha256(b"attacker") });
    let text = manifest.to_string();
    let _ = fs::remove_file(&manifest_path);
    fs::write(&manifest_path, &text).map_err(failed)?;
    let name = version.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let _ = fs::remove_file(snapshot.join("current"));
    fs::write(snapshot.join("current"), format!("{name} {}\n", sha256(text.as_bytes()))).map_err(failed)?;
    let victim = folder.join("victim");
    fs::create_dir_all(&victim).map_err(failed)?;
    let (from, to) = (snapshot.display().to_string(), victim.join("index").display().to_string());
    let restored = succeeds(&mut command(dpr(), &["index", "restore", "--snapshot", &from, "--out", &to]));
    let written = victim.join("pwned").exists() || folder.join("pwned").exists();
    report.line(
        "restoring a snapshot that names `../../pwned`",
        if restored { "restored" } else { "refused" },
        "refused, nothing written",
        !restored && !written,
    );
    let _ = fs::remove_file(snapshot.join(".lock"));
    symlink(fs::canonicalize(folder.join("precious")).map_err(failed)?, snapshot.join(".lock"))
        .map_err(failed)?;
    let _ = succeeds(&mut command(dpr(), &["index", "compact", "--index", &from]));
    let kept = fs::read_to_string(folder.join("precious")).map_err(failed)? == "keep";
    report.line("a lock that links to a file", if kept { "kept" } else { "lost" }, "the file is kept", kept);
    Ok(())
}

/// A byte of the write-ahead log flipped under a follower, and vectors cut under a server.
pub(super) fn damage(report: &mut Report) -> Outcome {
    let folder = folder("damage")?;
    let index = index_copy(&folder)?;
    let passages = folder.join("passages.jsonl");
    let lines: String = (0..4)
        .map(|n| {
            format!(
                "{}\n",
                json!({"id": format!("new-{n}"), "title": "", "text": format!("A new passage, number {n}.")})
            )
        })
        .collect();
    fs::write(&passages, lines).map_err(failed)?;
    let passages = passages.display().to_string();
    let add = ["index", "add", "--index", &index, "--model", DEMO_MODEL, "--passages", &passages];
    crate::process::output(&mut command(dpr(), &add))?;
    let mut server = Server::start(&["--model", DEMO_MODEL, "--index", &index], &[])?;
    let log = fs::read_dir(&index).map_err(failed)?.filter_map(|entry| Some(entry.ok()?.path()));
    let log = log.into_iter().find(|path| path.extension().is_some_and(|extension| extension == "log"));
    let log = log.ok_or_else(|| Failure::new("the index has no write-ahead log"))?;
    let end = fs::metadata(&log).map_err(failed)?.len();
    crate::process::output(&mut command(dpr(), &add))?;
    writable(&log, |file| file.write_all_at(&[0x55; 4], end + 40))?;
    sleep(Duration::from_secs(3));
    let before = bytes_read(server.id());
    sleep(Duration::from_secs(10));
    let read = bytes_read(server.id()) - before;
    let size = bytes_in(Path::new(&index));
    report.line(
        "read in 10 s by a follower of a damaged log",
        &super::megabytes(read as f64),
        &format!("less than twice {}", super::megabytes(size as f64)),
        read < 2 * size,
    );
    let body = search_body(&server, "")?;
    let status = server.ask("POST", "/v1/search", &[], body.as_bytes())?.status;
    report.line("its searches meanwhile", &status.to_string(), "200", status == 200);
    let vectors = fs::read_dir(version_dir(Path::new(&index))?).map_err(failed)?;
    let names = vectors.filter_map(|entry| Some(entry.ok()?.path()));
    for path in names.filter(|path| path.is_file() && path.extension().is_none_or(|kind| kind != "json")) {
        writable(&path, |file| file.set_len(4096.min(file.metadata()?.len())))?;
    }
    for _ in 0..50 {
        if server.ask("POST", "/v1/search", &[], body.as_bytes()).is_err() {
            break;
        }
    }
    let status = server.ended(Duration::from_secs(5));
    let code = status.and_then(|status| status.code());
    report.line(
        "files cut to a page under a server: exit status",
        &code.map_or_else(|| format!("{status:?}"), |code| code.to_string()),
        "a status, no signal",
        code.is_some_and(|code| code != 0),
    );
    Ok(())
}

fn writable(path: &Path, change: impl FnOnce(&fs::File) -> std::io::Result<()>) -> Outcome {
    let _ = succeeds(&mut command("chmod", &["u+w", &path.display().to_string()]));
    OpenOptions::new().write(true).open(path).and_then(|file| change(&file)).map_err(failed)
}

fn version_dir(index: &Path) -> Outcome<PathBuf> {
    let current = fs::read_to_string(index.join("current")).map_err(failed)?;
    Ok(index.join(current.split_whitespace().next().unwrap_or_default()))
}

/// Bytes that a process has read so far, from the disk or the file cache.
fn bytes_read(process: u32) -> u64 {
    let io = fs::read_to_string(format!("/proc/{process}/io")).unwrap_or_default();
    let line = io.lines().find_map(|line| line.strip_prefix("rchar: "));
    line.and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}
