//! `cargo xtask audit`: known holes, licences and sources of everything that is built on.
//!
//! Two parts need a network: the database of Rust advisories, a git repository, and npm's own. Where one cannot be
//! reached, its part is skipped and said to be; what does not need it is checked all the same.

use std::fs;

use serde_json::Value;

use crate::failure::{Failure, Outcome};
use crate::process::{self, command};
use crate::setup::cargo_tools::CARGO_DENY;

/// Folders with a lock file of npm.
const LOCKED: [&str; 5] =
    ["wasm/npm", "web-demo", "tests/browser", "tests/browser/bench/peers", "docs/typedoc"];

/// Folder of the projects of bundlers.
const BUNDLERS: &str = "tests/bundlers/templates";

/// The database of advisories of cargo-deny.
const DATABASE: &str = "the database https://github.com/rustsec/advisory-db";

/// The outcome of one check that was run.
enum Checked {
    Clean(String),
    /// Nothing was checked, and why.
    Skipped(String),
    Found(String),
}

/// Runs all checks, and fails after the last when one has found something.
pub(crate) fn run() -> Outcome {
    let mut found = Vec::new();
    let mut say = |name: &str, checked: Checked| match checked {
        Checked::Clean(what) => println!("audit: {name}: {what}"),
        Checked::Skipped(why) => println!("audit: {name}: SKIPPED: {why}"),
        Checked::Found(what) => {
            println!("audit: {name}: {what}");
            found.push(name.to_owned());
        }
    };
    let deny = CARGO_DENY.ensure()?;
    let check = |what: &[&str]| match process::run(command(&deny, &["--all-features"]).args(what)) {
        Ok(()) => Checked::Clean("nothing wrong".to_owned()),
        Err(failure) => Checked::Found(failure.to_string()),
    };
    say("Rust licences, bans and sources", check(&["check", "licenses", "bans", "sources"]));
    let advisories = match process::output(&mut command(&deny, &["fetch", "db"])) {
        Ok(_) => check(&["--offline", "check", "advisories"]),
        Err(_) => Checked::Skipped(format!("{DATABASE} cannot be reached from here; run this where it can")),
    };
    say("Rust advisories", advisories);
    for folder in locked()? {
        say(&format!("npm packages of {folder}"), npm(&folder)?);
    }
    match found.is_empty() {
        true => Ok(()),
        false => Err(Failure::new(format!("there is something wrong with: {}", found.join("; ")))
            .fix("read what is said above; update the package, or write into deny.toml why it does not matter here")),
    }
}

/// Folders with a lock file of npm: those of the project, and the projects of bundlers that the tests build.
fn locked() -> Outcome<Vec<String>> {
    let failed = |error: std::io::Error| Failure::new(format!("cannot read {BUNDLERS}: {error}"));
    let mut folders: Vec<_> = LOCKED.map(str::to_owned).into();
    for entry in fs::read_dir(BUNDLERS).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.join("package-lock.json").is_file() {
            folders.push(path.to_string_lossy().into_owned());
        }
    }
    folders.sort();
    Ok(folders)
}

/// Asks npm's registry for advisories about the packages of a lock file.
fn npm(folder: &str) -> Outcome<Checked> {
    let mut npm = command("npm", &["audit", "--json", "--package-lock-only"]);
    let answered = npm.current_dir(folder).output();
    let answered = answered.map_err(|e| Failure::new(format!("cannot start npm: {e}")))?;
    Ok(judge(&String::from_utf8_lossy(&answered.stdout)))
}

/// Reads the report of `npm audit --json`. The exit status says nothing of which of its two errors it is.
fn judge(report: &str) -> Checked {
    let report: Value = serde_json::from_str(report).unwrap_or_default();
    let Some(packages) = report["vulnerabilities"].as_object() else {
        let why = report["message"].as_str().or_else(|| report["error"]["summary"].as_str());
        let why = why.filter(|why| !why.is_empty()).unwrap_or("it did not answer with a report");
        return Checked::Skipped(format!("npm's registry knows of no audit here: {why}"));
    };
    if packages.is_empty() {
        return Checked::Clean("no advisory".to_owned());
    }
    let named: Vec<_> = packages
        .iter()
        .map(|(name, entry)| format!("{name} ({})", entry["severity"].as_str().unwrap_or("severity unknown")))
        .collect();
    Checked::Found(format!("advisories about {}", named.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_of_npm_are_told_apart() {
        let found = r#"{"auditReportVersion": 2, "vulnerabilities": {"vite": {"severity": "high"}}}"#;
        assert!(matches!(judge(found), Checked::Found(what) if what.contains("vite (high)")));
        assert!(matches!(judge(r#"{"auditReportVersion": 2, "vulnerabilities": {}}"#), Checked::Clean(_)));
        let refused =
            r#"{"message": "request to /-/npm/v1/security failed", "error": {"summary": "", "detail": ""}}"#;
        assert!(matches!(judge(refused), Checked::Skipped(why) if why.contains("failed")));
        assert!(matches!(judge(""), Checked::Skipped(_)));
    }
}
