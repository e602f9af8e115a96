//! Licence texts of packages: which files hold them, and what of them is a copyright notice.

use std::fs;
use std::path::Path;

use super::packages::Package;
use crate::failure::{Failure, Outcome};

/// The beginnings of such files' names.
const STARTS: [&str; 6] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];

/// A licence as one package has it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LicenceText {
    /// Lines that name who holds the copyright.
    pub(super) notices: Vec<String>,
    /// All other lines.
    pub(super) body: String,
}

/// Reads the licence texts of a package: of the licence chosen, where its holder lets choose.
pub(super) fn of(package: &Package) -> Outcome<Vec<LicenceText>> {
    let folder = package.folder()?;
    let mut names = names(&folder)?;
    names.sort();
    let texts = chosen(&package.licence, names).into_iter().map(|name| {
        let path = folder.join(name);
        let bytes =
            fs::read(&path).map_err(|e| Failure::new(format!("cannot read {}: {e}", path.display())))?;
        Ok(split(&String::from_utf8_lossy(&bytes)))
    });
    texts.collect()
}

fn names(folder: &Path) -> Outcome<Vec<String>> {
    let failed = |e: std::io::Error| Failure::new(format!("cannot read {}: {e}", folder.display()));
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_source = [".rs", ".toml", ".json"].iter().any(|end| name.ends_with(end));
        let upper = name.to_ascii_uppercase();
        if STARTS.iter().any(|start| upper.starts_with(start)) && !is_source && entry.path().is_file() {
            names.push(name);
        }
    }
    Ok(names)
}

/// Of a choice of licences, takes MIT's file, else Apache's, and notices; of anything else, all files.
fn chosen(expression: &str, names: Vec<String>) -> Vec<String> {
    if !expression.contains(" OR ") || expression.contains(" AND ") {
        return names;
    }
    for (licence, mark) in [("MIT", "MIT"), ("Apache-2.0", "APACHE")] {
        let is_it = |name: &String| name.to_ascii_uppercase().contains(mark);
        if expression.contains(licence) && names.iter().any(is_it) {
            let is_notice = |name: &String| name.to_ascii_uppercase().starts_with("NOTICE");
            return names.into_iter().filter(|name| is_it(name) || is_notice(name)).collect();
        }
    }
    names
}

/// Separates copyright notices from the text, which many packages have in common.
fn split(text: &str) -> LicenceText {
    let (mut notices, mut body) = (Vec::new(), String::new());
    for line in text.trim_start_matches('\u{feff}').lines() {
        let trimmed = line.trim();
        if is_notice(trimmed) {
            notices.push(trimmed.to_owned());
        } else {
            body.push_str(line.trim_end());
            body.push('\n');
        }
    }
    LicenceText { notices, body: body.trim_matches('\n').to_owned() }
}

/// Returns whether a line names who holds a copyright; the template at the end of Apache's text names nobody.
fn is_notice(line: &str) -> bool {
    let is_template = ["[yyyy]", "{yyyy}", "<year>"].iter().any(|mark| line.contains(mark));
    let names_somebody = line.contains(|c: char| c.is_ascii_digit() || c == '©')
        || line.contains("(c)")
        || line.contains("(C)");
    (line.starts_with("Copyright") || line.starts_with("COPYRIGHT") || line.starts_with("(c)"))
        && names_somebody
        && !is_template
}

/// The words of a text: texts that differ in line breaks alone are the same.
pub(super) fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_choice_of_licences_one_is_taken() {
        let files = || ["LICENSE-APACHE", "LICENSE-MIT", "NOTICE"].map(str::to_owned).to_vec();
        assert_eq!(chosen("MIT OR Apache-2.0", files()), ["LICENSE-MIT", "NOTICE"]);
        assert_eq!(chosen("Apache-2.0 OR ISC", files()), ["LICENSE-APACHE", "NOTICE"]);
        assert_eq!(chosen("(MIT OR Apache-2.0) AND Unicode-3.0", files()).len(), 3);
        assert_eq!(chosen("MIT", files()).len(), 3);
        assert_eq!(chosen("MIT OR Apache-2.0", vec!["COPYING".into()]), ["COPYING"]);
    }

    #[test]
    fn notices_are_apart_from_the_text() {
        let text = "MIT License\n\nCopyright (c) 2014 Alice\n\nPermission is\ncopyright notice and\nCopyright [yyyy] [name]\n";
        let split = split(text);
        assert_eq!(split.notices, ["Copyright (c) 2014 Alice"]);
        assert!(split.body.contains("Copyright [yyyy]") && split.body.contains("copyright notice and"));
        assert_eq!(words("A  b\n C"), "a b c");
    }
}
