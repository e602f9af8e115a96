//! `cargo xtask docs`: the book, rustdoc and the npm package's reference, in one folder without a dead link.
//!
//! `--check` looks at the sources alone, in a second and without any tool: links and anchors, pages that the book does
//! not list, `cargo xtask` lines, exports of the npm package, and versions. The test `docs_commands` of the server
//! looks at `dpr` lines.

mod check;
mod html;
mod markdown;
mod site;

use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Outcome};
use crate::jobs::run_task;
use crate::paths::root;
use crate::setup;

/// The folder of the book's pages.
const BOOK: &str = "docs";

/// The folders that `site` puts beside the book's pages, so that links into it cannot be checked in the sources.
const GENERATED: [&str; 2] = ["docs/rust", "docs/typescript"];

/// The set-up that building needs: TypeDoc reads the npm package, with the packages that its types come from.
const SET_UP: [&str; 2] = [setup::NODE, setup::PAGE_PACKAGES];

/// Checks the documentation and, unless `--check` is given, builds it.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    match arguments {
        [] => {
            check::run()?;
            run_task("docs", setup::only(&SET_UP))?;
            site::build()
        }
        [flag] if flag == "--check" => check::run(),
        _ => Err(Failure::new("docs takes no argument but --check")),
    }
}

/// Checks the sources of the documentation: dead links, unlisted pages, tasks that do not exist, versions that differ.
pub(crate) fn check_sources() -> Outcome {
    check::run()
}

/// A page of the repository: its path from the root, with `/`, and its text.
struct Page {
    path: String,
    text: String,
}

/// All Markdown files of the repository, in the order of their paths.
fn pages() -> Outcome<Vec<Page>> {
    let mut paths = Vec::new();
    collect(root(), &mut paths)?;
    paths.sort();
    paths.into_iter().map(|path| Ok(Page { text: read(&path)?, path })).collect()
}

/// Adds the Markdown files under a folder, without those of products, of tools and of other people's packages.
fn collect(folder: &Path, paths: &mut Vec<String>) -> Outcome {
    let failed = |e: std::io::Error| Failure::new(format!("cannot read {}: {e}", folder.display()));
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        let relative = path.strip_prefix(root()).unwrap_or(&path);
        let is_product = ["target", "data"].iter().any(|folder| relative == Path::new(folder))
            || ["node_modules", "dist", ".git", "test-results", "playwright-report"].contains(&name.as_str());
        if is_product {
            continue;
        }
        if entry.file_type().map_err(failed)?.is_dir() {
            collect(&path, paths)?;
        } else if name.ends_with(".md") {
            paths.push(relative.to_string_lossy().replace('\\', "/"));
        }
    }
    Ok(())
}

/// The text of a file; its path is relative to the repository's root.
fn read(path: impl AsRef<Path>) -> Outcome<String> {
    let path = path.as_ref();
    fs::read_to_string(root().join(path))
        .map_err(|e| Failure::new(format!("cannot read {}: {e}", path.display())))
}

/// The path from the root that `target` names when it stands in the file `from`; `None` when it leads out of the root.
fn resolve(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// The relative link from the file `from` to the file `to`.
fn relative(from: &str, to: &str) -> String {
    let (from, to): (Vec<&str>, Vec<&str>) = (from.split('/').collect(), to.split('/').collect());
    let shared = from.iter().zip(&to).take(from.len() - 1).take_while(|(a, b)| a == b).count();
    let up = PathBuf::from("../".repeat(from.len() - 1 - shared));
    up.join(to[shared..].join("/")).to_string_lossy().replace('\\', "/")
}

/// Returns whether a link leads to another site.
fn is_external(target: &str) -> bool {
    ["http://", "https://", "mailto:", "data:", "javascript:"].iter().any(|scheme| target.starts_with(scheme))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_site_brings_the_set_up_that_it_needs() {
        let jobs = setup::only(&SET_UP);
        assert_eq!(jobs.len(), SET_UP.len());
        assert_eq!(setup::missing(&jobs), [""; 0]);
    }

    #[test]
    fn links_are_resolved_and_made_relative_again() {
        for (from, target, path) in [
            ("README.md", "docs/guide/page.md", "docs/guide/page.md"),
            ("docs/guide/page.md", "../../README.md", "README.md"),
            ("docs/guide/page.md", "live.md", "docs/guide/live.md"),
            ("docs/guide/page.md", "../formats.md", "docs/formats.md"),
        ] {
            assert_eq!(resolve(from, target).as_deref(), Some(path));
            assert_eq!(relative(from, path), target);
        }
        assert_eq!(resolve("README.md", "../elsewhere.md"), None);
    }
}
