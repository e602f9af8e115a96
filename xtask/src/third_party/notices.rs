//! The notices of a product: its packages, and each licence text once with those who hold copyrights under it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::licence_files::{self, words};
use super::lock::Locked;
use super::packages::Package;
use crate::failure::Outcome;

const HELD: &str = "Packages";
const OTHERS: &str = "Not in it, but in the lock file for tests, tools, optional features or other platforms";
const TEXTS: &str = "Licences";

/// A licence text, and what each package says above it.
#[derive(Default)]
struct Group {
    body: String,
    packages: BTreeMap<String, Vec<String>>,
}

/// Writes the notices of `product`.
pub(super) fn text(product: &str, packages: &[Package], others: &[&Locked]) -> Outcome<String> {
    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    let mut without_text = Vec::new();
    for package in packages {
        let texts = licence_files::of(package)?;
        let name = format!("{} {}", package.name, package.version);
        if texts.is_empty() {
            without_text.push(format!("{name}: {}", package.licence));
        }
        for text in texts {
            let group = groups.entry(words(&text.body)).or_default();
            if group.body.is_empty() {
                group.body = text.body;
            }
            group.packages.entry(name.clone()).or_default().extend(text.notices);
        }
    }
    let mut out = format!(
        "Software of others in {product}\n\nWritten by `cargo xtask licenses` from the packages themselves; do not edit it.\n"
    );
    section(&mut out, HELD);
    out.push_str("Those of a build with every feature; one with fewer features holds fewer.\n\n");
    for Package { name, version, licence, repository } in packages {
        let _ = writeln!(out, "  {name} {version}  {licence}  {repository}");
    }
    section(&mut out, OTHERS);
    for Locked { name, version, .. } in others {
        let _ = writeln!(out, "  {name} {version}");
    }
    section(&mut out, TEXTS);
    if !without_text.is_empty() {
        out.push_str("These packages bring no text; they are under the licences of these names, whose texts stand below:\n");
        for line in without_text {
            let _ = writeln!(out, "* {line}");
        }
    }
    // The texts that most packages have come first.
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.sort_by(|a, b| b.packages.len().cmp(&a.packages.len()).then_with(|| a.body.cmp(&b.body)));
    for Group { body, packages } in groups {
        out.push_str("\n----------------------------------------\n");
        for (package, notices) in packages {
            let mut notices = notices;
            notices.dedup();
            let _ = writeln!(
                out,
                "* {package}{}{}",
                if notices.is_empty() { "" } else { ": " },
                notices.join("; ")
            );
        }
        let _ = writeln!(out, "\n{body}");
    }
    Ok(out)
}

fn section(out: &mut String, title: &str) {
    let _ = writeln!(out, "\n{title}\n{}\n", "-".repeat(title.len()));
}

#[cfg(test)]
/// Returns `name version` of all packages that notices list, held or not.
pub(super) fn named(notices: &str) -> impl Iterator<Item = String> {
    let lists = notices.split(&format!("\n{TEXTS}\n")).next().unwrap_or_default();
    lists.lines().filter_map(|line| {
        let mut words = line.strip_prefix("  ")?.split(' ');
        Some(format!("{} {}", words.next()?, words.next()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_read_back() {
        let locked = Locked { name: "other".into(), version: "2.0.0".into(), ..Locked::default() };
        let text = text("dpr", &[], &[&locked]).unwrap();
        let text = text
            .replace("Packages\n--------\n", "Packages\n--------\n\n  serde 1.0.2  MIT  https://serde.rs");
        assert_eq!(named(&text).collect::<Vec<_>>(), ["serde 1.0.2", "other 2.0.0"]);
    }
}
