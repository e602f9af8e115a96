//! The built documentation: `target/docs`, with the book at its root, `rust/` and `typescript/`.
//!
//! The pages link to one another, and to files of the repository, by relative paths, so that links work in a checkout
//! too. The book can only hold what lies in its own folder. Therefore its pages are copied, the linked files of the
//! repository are put beside them under `repository/`, and links are rewritten on the way.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::markdown::Markdown;
use super::{BOOK, GENERATED, html, is_external, pages, relative, resolve};
use crate::failure::{Failure, Outcome};
use crate::paths::{self, TOOLS};
use crate::process::{self, command};

/// The folder of the copy of the pages, and the folder in which everything is built.
const SOURCE: &str = "target/docs-source";
const SITE: &str = "target/docs";

/// Built from source without its search, server and watcher: a minute of one processor, where all features take
/// several.
const MDBOOK: &str = "0.5.4";
/// The folder that TypeDoc is installed from: a lock file, and a plugin.
const TYPEDOC: &str = "docs/typedoc";

/// Builds all parts and checks the links of the result.
pub(super) fn build() -> Outcome {
    let mdbook = mdbook()?;
    stage()?;
    let _ = fs::remove_dir_all(SITE);
    let dest = paths::absolute(SITE);
    process::output(&mut command(mdbook, &["build", SOURCE, "--dest-dir", &dest.to_string_lossy()]))?;
    println!("docs: the book");
    typescript()?;
    println!("docs: the npm package's reference");
    rust()?;
    println!("docs: rustdoc");
    let pages = html::check(Path::new(SITE), &["rust"])?;
    println!("docs: {SITE}/index.html, {pages} pages without a dead link");
    Ok(())
}

/// Copies the pages and what they link to.
fn stage() -> Outcome {
    let _ = fs::remove_dir_all(SOURCE);
    copy(&format!("{BOOK}/book.toml"))?;
    let pages = pages()?;
    let summary = pages.iter().find(|page| page.path == format!("{BOOK}/SUMMARY.md"));
    let chapters: BTreeSet<String> = summary
        .into_iter()
        .flat_map(|page| {
            let links = Markdown::parse(&page.text).links;
            links
                .into_iter()
                .filter_map(|link| resolve(&page.path, &page.text[link.target]))
                .collect::<Vec<_>>()
        })
        .collect();
    for page in &pages {
        if !page.path.starts_with(&format!("{BOOK}/")) && !chapters.contains(&page.path) {
            continue;
        }
        let (own, mut text, mut files) = (in_book(&page.path), page.text.clone(), Vec::new());
        for link in Markdown::parse(&page.text).links.into_iter().rev() {
            let target = &page.text[link.target.clone()];
            let (file, anchor) = target.find('#').map_or((target, ""), |at| target.split_at(at));
            let Some(path) = resolve(&page.path, file).filter(|_| !file.is_empty() && !is_external(target))
            else {
                continue;
            };
            text.replace_range(link.target, &format!("{}{anchor}", relative(&own, &in_book(&path))));
            if !path.ends_with(".md") && !GENERATED.iter().any(|folder| path.starts_with(folder)) {
                files.push(path);
            }
        }
        write(&own, text.as_bytes())?;
        for path in files {
            copy(&path)?;
        }
    }
    Ok(())
}

/// Returns the path in the book of a file of the repository. mdBook makes `index.html` of a README, whatever links to
/// it say, so that a README gets another name.
fn in_book(path: &str) -> String {
    match path.strip_prefix("docs/") {
        Some(path) => path.to_owned(),
        None => format!("repository/{}", path.replace("README.md", "about.md")),
    }
}

fn copy(path: &str) -> Outcome {
    let bytes = fs::read(path).map_err(|e| Failure::new(format!("cannot read {path}: {e}")))?;
    write(&in_book(path), &bytes)
}

fn write(path: &str, bytes: &[u8]) -> Outcome {
    let path = Path::new(SOURCE).join(path);
    let failed = |e: std::io::Error| Failure::new(format!("cannot write {}: {e}", path.display()));
    path.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
    fs::write(&path, bytes).map_err(failed)
}

/// The mdBook to call: from `target/tools` or PATH, else it is installed.
fn mdbook() -> Outcome<PathBuf> {
    let own = paths::absolute(Path::new(TOOLS).join("bin/mdbook"));
    let is_right = |program: &PathBuf| {
        process::output(&mut command(program, &["--version"]))
            .is_ok_and(|version| version.trim().ends_with(MDBOOK))
    };
    let found = [Some(own.clone()), process::find_on_path("mdbook")].into_iter().flatten();
    if let Some(program) = found.filter(|program| program.is_file()).find(is_right) {
        return Ok(program);
    }
    println!("docs: cargo install mdbook {MDBOOK} (a minute or two)");
    let (root, build) = (paths::absolute(TOOLS), paths::absolute(Path::new(TOOLS).join("build")));
    let root = root.to_string_lossy();
    let mut cargo = process::cargo(&["install", "--quiet", "--locked", "mdbook", "--version", MDBOOK]);
    cargo.args(["--no-default-features", "--root", &root]);
    // It runs for a second: compiling it well would take longer than that saves.
    cargo.env("CARGO_TARGET_DIR", &build).env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0").env_remove("RUSTFLAGS");
    let outcome = process::output(&mut cargo);
    let _ = fs::remove_dir_all(&build);
    outcome.map_err(|failure| failure.fix(format!("put mdbook {MDBOOK} on PATH")))?;
    Ok(own)
}

/// The reference of the npm package, from the sources of all its entries. TypeDoc lies apart from the package: it reads
/// sources through TypeScript's interface, which TypeScript 7 of the package does not have.
fn typescript() -> Outcome {
    let tools = paths::absolute(Path::new(TOOLS).join("typedoc"));
    let failed = |e: std::io::Error| Failure::new(format!("cannot write {}: {e}", tools.display()));
    fs::create_dir_all(&tools).map_err(failed)?;
    let (lock, installed) = ("package-lock.json", tools.join("installed.json"));
    let wanted = fs::read(Path::new(TYPEDOC).join(lock)).map_err(failed)?;
    for file in ["package.json", lock, "entries.mjs"] {
        fs::copy(Path::new(TYPEDOC).join(file), tools.join(file)).map_err(failed)?;
    }
    let program = tools.join("node_modules/.bin/typedoc");
    if !program.is_file() || fs::read(&installed).ok().as_ref() != Some(&wanted) {
        println!("docs: npm ci in {TYPEDOC}");
        let mut npm = command("npm", &["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
        process::output(npm.current_dir(&tools)).map_err(|failure| {
            failure.fix("check that npm reaches its registry (`npm ping`), then run this again")
        })?;
        fs::write(&installed, &wanted).map_err(failed)?;
    }
    let out = paths::absolute(SITE).join("typescript");
    let mut typedoc = command(program, &["--plugin"]);
    typedoc.arg(tools.join("entries.mjs")).arg("--out").arg(out);
    process::output(typedoc.current_dir("wasm/npm")).map(drop)
}

/// rustdoc of every library of the workspace but the browser's, whose interface is the npm package.
fn rust() -> Outcome {
    let built = paths::target_dir().join("doc");
    let _ = fs::remove_dir_all(&built);
    let mut cargo =
        process::cargo(&["doc", "--release", "--no-deps", "--lib", "--workspace", "--exclude", "dpr-wasm"]);
    cargo.args(["--exclude", "xtask"]).env("RUSTDOCFLAGS", "-D rustdoc::broken_intra_doc_links");
    process::run(&mut cargo)?;
    let target = Path::new(SITE).join("rust");
    let failed = |e: std::io::Error| Failure::new(format!("cannot write {}: {e}", target.display()));
    paths::copy_folder(&built, &target).map_err(failed)?;
    let mut crates: Vec<String> = fs::read_dir(&built)
        .map_err(failed)?
        .flatten()
        .filter(|entry| entry.path().join("all.html").is_file())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    crates.sort();
    let items = crates.iter().map(|name| format!("<li><a href=\"{name}/index.html\">{name}</a></li>\n"));
    let page = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>dpr: Rust crates</title>\n\
         <h1>Rust crates</h1>\n<ul>\n{}</ul>\n</html>\n",
        items.collect::<String>()
    );
    fs::write(target.join("index.html"), page).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_repository_have_a_place_in_the_book() {
        assert_eq!(in_book("docs/guide/page.md"), "guide/page.md");
        assert_eq!(in_book("wasm/npm/README.md"), "repository/wasm/npm/about.md");
        assert_eq!(in_book("server/openapi.json"), "repository/server/openapi.json");
    }
}
