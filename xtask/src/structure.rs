//! `cargo xtask structure`: the crates, the lines of each and the crates that it imports, drawn from the sources.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::failure::{Failure, Outcome};
use crate::process::{cargo, output};

/// The greatest share of the lines that one crate may have.
const GREATEST_SHARE: f64 = 0.2;

/// A crate of the workspace.
#[derive(Debug, Default)]
struct Crate {
    /// Lines of its sources, without tests.
    lines: usize,
    /// Crates of the workspace that it imports, tests aside.
    imports: BTreeSet<String>,
}

/// Prints the crates from the bottom up, and refuses a crate that imports one above it or is too large.
pub(crate) fn run() -> Outcome {
    let crates = read(Path::new("Cargo.toml"))?;
    let order = from_the_bottom(&crates)?;
    let total: usize = crates.values().map(|of| of.lines).sum();
    println!("{:<14}{:>8}{:>8}  imports", "crate", "lines", "share");
    for name in &order {
        let Crate { lines, imports } = &crates[name];
        let imports: Vec<&str> =
            order.iter().filter(|of| imports.contains(*of)).map(String::as_str).collect();
        let share = *lines as f64 / total as f64 * 100.0;
        println!("{name:<14}{lines:>8}{share:>7.1}%  {}", imports.join(" "));
    }
    println!("{:<14}{total:>8}", "all");
    match too_large(&crates) {
        None => Ok(()),
        Some(name) => {
            Err(Failure::new(format!("{name} has more than {:.0} % of the lines", GREATEST_SHARE * 100.0))
                .fix("move a part that others do not need into a crate of its own"))
        }
    }
}

/// Reads the workspace of this manifest as cargo describes it.
fn read(manifest: &Path) -> Outcome<BTreeMap<String, Crate>> {
    let mut metadata = cargo(&["metadata", "--no-deps", "--format-version", "1", "--manifest-path"]);
    let text = output(metadata.arg(manifest))?;
    let metadata: Value =
        serde_json::from_str(&text).map_err(|error| Failure::new(format!("cargo metadata: {error}")))?;
    let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    let name_of = |package: &Value| package["name"].as_str().unwrap_or_default().to_owned();
    let names: BTreeSet<String> = packages.iter().map(name_of).collect();
    packages
        .iter()
        .map(|package| {
            let folder =
                Path::new(package["manifest_path"].as_str().unwrap_or_default()).with_file_name("src");
            let dependencies = package["dependencies"].as_array().into_iter().flatten();
            let imports = dependencies
                .filter(|dependency| dependency["kind"].is_null())
                .map(name_of)
                .filter(|name| names.contains(name))
                .collect();
            Ok((name_of(package), Crate { lines: lines(&folder)?, imports }))
        })
        .collect()
}

/// Returns the lines of the sources in a folder, without modules of tests.
fn lines(folder: &Path) -> Outcome<usize> {
    let failed = |error: std::io::Error| Failure::new(format!("cannot read {}: {error}", folder.display()));
    if !folder.is_dir() {
        return Ok(0);
    }
    let mut sum = 0;
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if name == "tests" || name.ends_with("_tests") || name == "testing" {
            continue;
        }
        if path.is_dir() {
            sum += lines(&path)?;
        } else if path.extension().is_some_and(|end| end == "rs") {
            sum += without_tests(&fs::read_to_string(&path).map_err(failed)?).lines().count();
        }
    }
    Ok(sum)
}

/// Returns a source up to its module of tests.
fn without_tests(source: &str) -> &str {
    source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default()
}

/// Returns the names in an order in which each crate comes after those that it imports.
fn from_the_bottom(crates: &BTreeMap<String, Crate>) -> Outcome<Vec<String>> {
    let mut order: Vec<String> = Vec::new();
    while order.len() < crates.len() {
        let is_next = |(name, of): &(&String, &Crate)| {
            !order.contains(name) && of.imports.iter().all(|import| order.contains(import))
        };
        let Some((name, _)) = crates.iter().find(is_next) else {
            let left: Vec<_> = crates.keys().filter(|name| !order.contains(name)).cloned().collect();
            return Err(Failure::new(format!(
                "these crates import each other in a circle: {}",
                left.join(", ")
            )));
        };
        order.push(name.clone());
    }
    Ok(order)
}

/// Returns the crate that has too great a share of the lines.
fn too_large(crates: &BTreeMap<String, Crate>) -> Option<&str> {
    let total: usize = crates.values().map(|of| of.lines).sum();
    let is_too_large = |of: &Crate| of.lines as f64 > total as f64 * GREATEST_SHARE;
    crates.iter().find(|(_, of)| is_too_large(of)).map(|(name, _)| name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace(crates: &[(&str, usize, &[&str])]) -> BTreeMap<String, Crate> {
        let of = |(name, lines, imports): &(&str, usize, &[&str])| {
            let imports = imports.iter().map(|import| (*import).to_owned()).collect();
            ((*name).to_owned(), Crate { lines: *lines, imports })
        };
        crates.iter().map(of).collect()
    }

    #[test]
    fn crates_come_after_what_they_import_and_a_circle_is_named() {
        let order = from_the_bottom(&workspace(&[("a", 1, &["z"]), ("b", 1, &["a"]), ("z", 1, &[])]));
        assert_eq!(order.unwrap(), ["z", "a", "b"]);
        let circle = from_the_bottom(&workspace(&[("a", 1, &["b"]), ("b", 1, &["a"]), ("c", 1, &[])]));
        assert!(circle.unwrap_err().to_string().ends_with("a, b"));
    }

    #[test]
    fn no_crate_has_more_than_a_fifth_of_the_lines() {
        let even = [("a", 20, &[][..]), ("b", 20, &[]), ("c", 20, &[]), ("d", 20, &[]), ("e", 20, &[])];
        assert_eq!(too_large(&workspace(&even)), None);
        assert_eq!(too_large(&workspace(&[("a", 9, &[]), ("b", 1, &[])])), Some("a"));
        assert_eq!(without_tests("a\nb\n#[cfg(test)]\nmod tests {\n}\n").lines().count(), 2);
    }

    #[test]
    fn the_workspace_has_no_circle_and_no_crate_that_is_too_large() {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
        let crates = read(&manifest).unwrap();
        assert!(crates.len() > 15 && crates["dpr-index"].imports.contains("dpr-core"), "{crates:?}");
        from_the_bottom(&crates).unwrap();
        assert_eq!(too_large(&crates), None);
    }
}
