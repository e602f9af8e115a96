//! Checks that need the sources alone.

mod bodies;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::markdown::Markdown;
use super::{BOOK, GENERATED, Page, is_external, pages, read, resolve};
use crate::failure::{Failure, Outcome};
use crate::paths::root;

/// Checks all pages, and names every problem at once.
pub(super) fn run() -> Outcome {
    let pages = pages()?;
    let mut problems = links(&pages);
    problems.extend(unlisted(&pages));
    problems.extend(tasks(&pages, crate::USAGE));
    problems.extend(exports(&read("wasm/npm/src/index.ts")?, &read("docs/reference/typescript.md")?));
    problems.extend(paths(&pages));
    let (openapi, http) = (json("server/openapi.json")?, read("docs/reference/http.md")?);
    problems.extend(interface(&openapi, &http));
    problems.extend(bodies::problems(&openapi, &http));
    problems.extend(programs(&manifests()?, &read("docs/reference/rust.md")?));
    problems.extend(unreleased(&pages));
    problems.extend(versions()?);
    if problems.is_empty() {
        println!("docs: {} pages, no dead link, no unknown task, one version", pages.len());
        return Ok(());
    }
    Err(Failure::new(format!("the documentation has problems:\n    {}", problems.join("\n    "))))
}

/// Links to files that are not there, and to headings that their files do not have.
fn links(pages: &[Page]) -> Vec<String> {
    let parsed: BTreeMap<&str, Markdown<'_>> =
        pages.iter().map(|page| (page.path.as_str(), Markdown::parse(&page.text))).collect();
    let mut problems = Vec::new();
    for page in pages {
        for link in &parsed[page.path.as_str()].links {
            let target = &page.text[link.target.clone()];
            let mut dead = |why: &str| problems.push(format!("{}:{}: {target}: {why}", page.path, link.line));
            if is_external(target) {
                continue;
            }
            let (file, anchor) =
                target.split_once('#').map_or((target, None), |(file, anchor)| (file, Some(anchor)));
            let path = if file.is_empty() { Some(page.path.clone()) } else { resolve(&page.path, file) };
            let Some(path) = path else {
                dead("it leads out of the repository");
                continue;
            };
            if GENERATED.iter().any(|folder| path.starts_with(folder)) {
                continue;
            }
            match (parsed.get(path.as_str()), anchor) {
                (None, _) if !root().join(&path).is_file() => dead("there is no such file"),
                (None, Some(_)) => dead("only a Markdown file has headings to link to"),
                (Some(to), Some(anchor)) if !to.anchors.iter().any(|known| known == anchor) => {
                    dead("the file has no such heading");
                }
                _ => {}
            }
        }
    }
    problems
}

/// Pages of the book, and pages that they link to, which the summary does not list: the book would not have them.
fn unlisted(pages: &[Page]) -> Vec<String> {
    let summary = format!("{BOOK}/SUMMARY.md");
    let targets = |page: &Page| -> BTreeSet<String> {
        let links = Markdown::parse(&page.text).links;
        let files =
            links.iter().map(|link| page.text[link.target.clone()].split('#').next().unwrap_or_default());
        files
            .filter(|file| !is_external(file) && file.ends_with(".md"))
            .filter_map(|file| resolve(&page.path, file))
            .collect()
    };
    let listed = pages.iter().find(|page| page.path == summary).map(targets).unwrap_or_default();
    let mut problems = Vec::new();
    for page in pages.iter().filter(|page| page.path != summary) {
        let is_listed = listed.contains(&page.path);
        if page.path.starts_with(&format!("{BOOK}/")) && !is_listed {
            problems.push(format!("{}: {summary} does not list it", page.path));
        }
        if is_listed {
            let missing = targets(page).into_iter().filter(|target| !listed.contains(target));
            problems.extend(
                missing.map(|target| {
                    format!("{}: it links to {target}, which {summary} does not list", page.path)
                }),
            );
        }
    }
    problems
}

/// `cargo xtask` lines with a task, a flag or a value that the usage does not name.
fn tasks(pages: &[Page], usage: &str) -> Vec<String> {
    let tasks: BTreeSet<&str> = usage
        .lines()
        .filter_map(|line| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    let words: BTreeSet<&str> = usage.split(|c: char| !(c.is_alphanumeric() || c == '-')).collect();
    let mut problems = Vec::new();
    for page in pages {
        for block in Markdown::parse(&page.text).blocks.iter().filter(|block| block.language == "sh") {
            for (line, text) in (block.line + 1..).zip(&block.lines) {
                let command = text.split(" #").next().unwrap_or_default();
                let Some(arguments) = command.trim().strip_prefix("cargo xtask") else { continue };
                let mut arguments = arguments.split_whitespace();
                let task = arguments.next().unwrap_or_default();
                if !tasks.contains(task) {
                    problems.push(format!("{}:{line}: there is no task `{task}`", page.path));
                }
                for word in arguments.filter(|word| !words.contains(word)) {
                    problems.push(format!("{}:{line}: `cargo xtask help` does not name `{word}`", page.path));
                }
            }
        }
    }
    problems
}

/// Names that the npm package exports and its page does not list.
fn exports(index: &str, page: &str) -> Vec<String> {
    let statements = index.split("\nexport ").filter(|statement| statement.starts_with(['{', 't']));
    let lists = statements.filter_map(|statement| statement.split_once('{')?.1.split_once('}'));
    let names = lists.flat_map(|(names, _)| names.split(',')).map(str::trim).filter(|name| !name.is_empty());
    names
        .filter(|name| !page.contains(&format!("`{name}`")))
        .map(|name| format!("docs/reference/typescript.md: it does not list the export `{name}`"))
        .collect()
}

/// Files that pages name in code, as `core/src/lib.rs`, and that are not there.
fn paths(pages: &[Page]) -> Vec<String> {
    const FOLDERS: [&str; 10] =
        ["bench", "configs", "core", "docs", "examples", "server", "tests", "wasm", "web-demo", "xtask"];
    let mut problems = Vec::new();
    for page in pages {
        for (line, code) in Markdown::parse(&page.text).code {
            let Some((folder, rest)) = code.split_once('/') else { continue };
            let is_path = code.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
            // What is built, and what a page's own folder holds, need not be in a checkout.
            let is_built =
                ["dist", "node_modules"].iter().any(|name| rest.split('/').any(|part| part == *name));
            if is_path
                && FOLDERS.contains(&folder)
                && !rest.is_empty()
                && !is_built
                && !root().join(code).exists()
            {
                problems.push(format!("{}:{line}: there is no `{code}`", page.path));
            }
        }
    }
    problems
}

/// Paths, statuses and error codes of the HTTP interface that its page does not list.
fn interface(openapi: &Value, page: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let mut missing =
        |what: String| problems.push(format!("docs/reference/http.md: it does not list {what}"));
    for (path, methods) in openapi["paths"].as_object().into_iter().flatten() {
        for (method, operation) in methods.as_object().into_iter().flatten() {
            let request = format!("`{} {path}`", method.to_uppercase());
            let Some(row) = page.lines().find(|line| line.starts_with('|') && line.contains(&request)) else {
                missing(request);
                continue;
            };
            for status in operation["responses"].as_object().into_iter().flatten().map(|(status, _)| status) {
                if !row.contains(status) {
                    missing(format!("{status} of {request}"));
                }
            }
        }
    }
    let codes = openapi.pointer("/components/schemas/ErrorCode/enum").and_then(Value::as_array);
    for code in codes.into_iter().flatten().filter_map(Value::as_str) {
        if !page.contains(&format!("`{code}`")) {
            missing(format!("the code `{code}`"));
        }
    }
    problems
}

/// Returns the manifests of the workspace's crates.
fn manifests() -> Outcome<Vec<String>> {
    let workspace = read("Cargo.toml")?;
    let members = workspace.split_once("\nmembers = [").and_then(|(_, rest)| rest.split_once(']'));
    let (members, _) = members.ok_or_else(|| Failure::new("Cargo.toml lists no members"))?;
    members.split('"').skip(1).step_by(2).map(|member| read(format!("{member}/Cargo.toml"))).collect()
}

/// Returns a problem for each example program of the crates that the page of the Rust crates does not name.
fn programs(manifests: &[String], page: &str) -> Vec<String> {
    let tables = manifests.iter().flat_map(|manifest| manifest.split("[[example]]").skip(1));
    let name = |table: &str| {
        let line = table.lines().find(|line| line.starts_with("name = "));
        line.and_then(|line| line.split('"').nth(1)).unwrap_or_default().to_owned()
    };
    tables
        .map(name)
        .filter(|name| !page.contains(&format!("`{name}`")))
        .map(|name| format!("docs/reference/rust.md: it does not name the example `{name}`"))
        .collect()
}

/// The sentence by which SECURITY.md says that nothing is published: neither the crates nor the npm package.
const UNRELEASED: &str = "There is no release yet.";

/// Returns a problem for each page that installs the npm package by its name alone while no registry has it: the page
/// must name the packed file too.
fn unreleased(pages: &[Page]) -> Vec<String> {
    fn installs(page: &Page) -> bool {
        let blocks = Markdown::parse(&page.text).blocks;
        blocks.iter().flat_map(|block| &block.lines).any(|line| line.trim() == "npm install dpr-web")
    }
    let is_released = |page: &Page| page.path == "SECURITY.md" && !page.text.contains(UNRELEASED);
    if pages.iter().any(is_released) {
        return Vec::new();
    }
    pages
        .iter()
        .filter(|page| installs(page) && !page.text.contains("wasm/npm/dpr-web.tgz"))
        .map(|page| {
            format!("{}: `dpr-web` is on no registry, and it does not name its packed file", page.path)
        })
        .collect()
}

fn json(path: &str) -> Outcome<Value> {
    serde_json::from_str(&read(path)?).map_err(|e| Failure::new(format!("{path} is not JSON: {e}")))
}

/// Versions that are not the workspace's.
fn versions() -> Outcome<Vec<String>> {
    let manifest = read("Cargo.toml")?;
    let mut lines = manifest.lines().skip_while(|line| *line != "[workspace.package]");
    let version = lines.find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'));
    let version =
        version.ok_or_else(|| Failure::new("Cargo.toml names no version in [workspace.package]"))?;
    let mut problems = Vec::new();
    for (path, pointer) in [
        ("wasm/npm/package.json", "/version"),
        ("wasm/npm/package-lock.json", "/version"),
        ("server/openapi.json", "/info/version"),
    ] {
        let json = json(path)?;
        let found = json.pointer(pointer).and_then(Value::as_str).unwrap_or("missing");
        if found != version {
            problems.push(format!("{path}: its version is {found}, the workspace's {version}"));
        }
    }
    Ok(problems)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_of_this_repository_has_no_problem() {
        assert_eq!(run(), Ok(()));
    }

    fn page(path: &str, text: &str) -> Page {
        Page { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn dead_links_are_named_with_their_line() {
        let pages = [
            page(
                "no-such-folder/a.md",
                "# A\n[b](b.md#there) [b](b.md#gone) [c](c.md) [own](#a) [x](https://x.org/#y)",
            ),
            page("no-such-folder/b.md", "# There\n[out](../../out.md)"),
        ];
        assert_eq!(
            links(&pages),
            [
                "no-such-folder/a.md:2: b.md#gone: the file has no such heading",
                "no-such-folder/a.md:2: c.md: there is no such file",
                "no-such-folder/b.md:2: ../../out.md: it leads out of the repository",
            ]
        );
    }

    #[test]
    fn pages_that_the_summary_forgets_are_named() {
        let pages = [
            page("CHANGELOG.md", ""),
            page("docs/SUMMARY.md", "- [A](a.md)"),
            page("docs/a.md", "[changes](../CHANGELOG.md)"),
            page("docs/b.md", ""),
        ];
        assert_eq!(
            unlisted(&pages),
            [
                "docs/a.md: it links to CHANGELOG.md, which docs/SUMMARY.md does not list",
                "docs/b.md: docs/SUMMARY.md does not list it",
            ]
        );
    }

    #[test]
    fn tasks_flags_and_values_must_be_in_the_usage() {
        let usage = "usage: cargo xtask TASK\n\n  test     all (--only STEP;\n           steps: fmt, rust)\n  demo     the page";
        let text = "```sh\ncargo xtask test --only rust   # a comment\ncargo xtask tests\ncargo xtask demo --fast\ndpr index\n```\n";
        assert_eq!(
            tasks(&[page("a.md", text)], usage),
            ["a.md:3: there is no task `tests`", "a.md:4: `cargo xtask help` does not name `--fast`"]
        );
    }

    #[test]
    fn files_that_are_named_exist() {
        let text = "`xtask/src/main.rs`, `xtask/src/gone.rs`, `configs/`, `web-demo/dist/`, `core/x y`";
        assert_eq!(paths(&[page("a.md", text)]), ["a.md:1: there is no `xtask/src/gone.rs`"]);
    }

    #[test]
    fn requests_statuses_and_codes_are_listed() {
        let openapi = serde_json::json!({
            "paths": {"/a": {"get": {"responses": {"200": {}, "404": {}}}, "post": {"responses": {}}}},
            "components": {"schemas": {"ErrorCode": {"enum": ["known", "unknown"]}}}
        });
        let told = interface(&openapi, "| `GET /a` | 200 |\n| 404 | `known` |");
        let missing = ["404 of `GET /a`", "`POST /a`", "the code `unknown`"];
        assert_eq!(told, missing.map(|what| format!("docs/reference/http.md: it does not list {what}")));
    }

    #[test]
    fn example_programs_are_named() {
        let manifests =
            ["[[example]]\nname = \"known\"\npath = \"a.rs\"\n\n[[example]]\nname = \"unknown\"\n"
                .to_owned()];
        assert_eq!(
            programs(&manifests, "[`known`](known.rs)"),
            ["docs/reference/rust.md: it does not name the example `unknown`"]
        );
    }

    #[test]
    fn pages_name_the_packed_file_before_a_release() {
        let install = "```sh\nnpm install dpr-web\n```\n";
        let security = |text| page("SECURITY.md", text);
        let named = page("a.md", &format!("{install}`npm install ../dpr/wasm/npm/dpr-web.tgz`"));
        let pages = [security(UNRELEASED), named, page("b.md", install)];
        assert_eq!(
            unreleased(&pages),
            ["b.md: `dpr-web` is on no registry, and it does not name its packed file"]
        );
        assert_eq!(unreleased(&[security("0.1 is supported."), page("b.md", install)]), [""; 0]);
    }

    #[test]
    fn every_export_is_listed() {
        let index = "/** {@link A} */\nexport { A } from './a.js';\nexport type { B, C } from './b.js';\n";
        assert_eq!(
            exports(index, "| `A`, `C` |"),
            ["docs/reference/typescript.md: it does not list the export `B`"]
        );
    }
}
