//! The npm package and the search page.
//!
//! The page can be built before the modules for relaxed SIMD and WebGPU are (`cargo xtask demo` does): such a page
//! says in its HTML that the latter is still coming, encodes on the CPU, and asks for `modules.json` until that says
//! that the whole page is there.

use std::fs;
use std::io;
use std::path::Path;

use super::MODULES;
use crate::failure::{Failure, Outcome};
use crate::jobs::Done;
use crate::paths::{PAGE, absolute};
use crate::process::{self, command};
use crate::stamp::Stamp;

/// The folder of the npm package.
const PACKAGE: &str = "wasm/npm";
/// The package as it would be published; the search page depends on this file.
const TARBALL: &str = "wasm/npm/dpr-web.tgz";
/// The folder in which the page is built, before it is put in the place of the one that is served.
const NEXT_PAGE: &str = "target/page";

/// The progress of the WebGPU module, as `modules.json` tells a page that was built without it.
#[derive(Clone, Copy)]
pub(crate) enum Arrival {
    Building,
    Ready,
    Failed,
}

/// Compiles the TypeScript.
pub(super) fn scripts() -> Outcome<Done> {
    let inputs =
        ["src", "scripts", "package.json", "package-lock.json", "tsconfig.json", "tsconfig.node.json"]
            .map(|name| format!("{PACKAGE}/{name}"));
    let stamp = Stamp::of("package-scripts", &inputs.each_ref().map(String::as_str), &[])?;
    unless_fresh(&stamp, &["wasm/npm/dist/index.js"], || npm(PACKAGE, &["run", "--silent", "build"]))
}

/// Packs the package.
pub(super) fn pack() -> Outcome<Done> {
    let [cpu, relaxed, webgpu] = MODULES.each_ref().map(|module| format!("{PACKAGE}/wasm/{}", module.name));
    let [manifest, readme, notices] =
        ["package.json", "README.md", "THIRD_PARTY.txt"].map(|name| format!("{PACKAGE}/{name}"));
    let inputs = ["wasm/npm/dist", &manifest, &readme, &notices, &cpu, &relaxed, &webgpu];
    let stamp = Stamp::of("package", &inputs, &[])?;
    unless_fresh(&stamp, &[TARBALL], || npm(PACKAGE, &["run", "--silent", "tarball"]))
}

fn whole_stamp() -> Outcome<Stamp> {
    Stamp::of("page", &["web-demo", TARBALL], &[])
}

/// Builds the page of the packed package, and has `publish` put it in its place.
pub(super) fn whole(publish: fn() -> Outcome) -> Outcome<Done> {
    unless_fresh(&whole_stamp()?, &[&format!("{PAGE}/index.html")], || {
        npm("web-demo", &["run", "--silent", "use-package"])?;
        npm("web-demo", &["run", "--silent", "build", "--", "--outDir", "../target/page", "--emptyOutDir"])?;
        clear_early();
        publish()
    })
}

/// Builds the page with the CPU module alone, of what the package is packed of.
pub(super) fn early() -> Outcome<Done> {
    let stamp = Stamp::of("page-early", &["web-demo", "wasm/npm/dist", "wasm/npm/wasm/cpu"], &[])?;
    unless_fresh(&stamp, &[&format!("{PAGE}/index.html")], || {
        let vite = absolute("web-demo/node_modules/.bin/vite");
        let mut build = command(vite, &["build", "--outDir", "../target/page", "--emptyOutDir"]);
        process::run(build.current_dir("web-demo").env("DPR_EARLY", "1"))?;
        whole_stamp()?.clear();
        publish()
    })
}

/// Forgets the page with the CPU module alone.
fn clear_early() {
    if let Ok(stamp) = Stamp::of("page-early", &[], &[]) {
        stamp.clear();
    }
}

fn unless_fresh(stamp: &Stamp, outputs: &[&str], work: impl FnOnce() -> Outcome) -> Outcome<Done> {
    if stamp.is_fresh(outputs) {
        return Ok(Done::note("up to date"));
    }
    stamp.clear();
    work()?;
    stamp.write().map(Done::from)
}

/// Puts the built page in the place of another one, of which nothing stays.
pub(crate) fn publish() -> Outcome {
    let failed = |e: io::Error| Failure::new(format!("cannot write {PAGE}: {e}"));
    if Path::new(PAGE).exists() {
        fs::remove_dir_all(PAGE).map_err(failed)?;
    }
    fs::rename(NEXT_PAGE, PAGE).map_err(failed)
}

/// Puts the built page beside the one that is served, and then its `index.html` in the other's place: who has the older
/// page open still finds the files of it, which have hashes in their names.
pub(crate) fn publish_beside() -> Outcome {
    let failed = |e: io::Error| Failure::new(format!("cannot write {PAGE}: {e}"));
    move_files(Path::new(NEXT_PAGE), Path::new(PAGE)).map_err(failed)?;
    fs::rename(Path::new(NEXT_PAGE).join("index.html"), Path::new(PAGE).join("index.html")).map_err(failed)
}

/// Moves all files but the HTML.
fn move_files(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let source = entry?.path();
        let Some(name) = source.file_name() else { continue };
        match source.is_dir() {
            true => move_files(&source, &to.join(name))?,
            false if name == "index.html" => {}
            false => fs::rename(&source, to.join(name))?,
        }
    }
    Ok(())
}

/// Tells pages that were built without the WebGPU module how far it is.
pub(crate) fn tell(arrival: Arrival) -> Outcome {
    let state = match arrival {
        Arrival::Building => "building",
        Arrival::Ready => "ready",
        Arrival::Failed => "failed",
    };
    let (next, file) = (format!("{PAGE}/.modules.json"), format!("{PAGE}/modules.json"));
    fs::write(&next, format!("{{\"webgpu\":\"{state}\"}}\n"))
        .and_then(|()| fs::rename(&next, &file))
        .map_err(|e| Failure::new(format!("cannot write {file}: {e}")))
}

fn npm(folder: &str, arguments: &[&str]) -> Outcome {
    process::run(command("npm", arguments).current_dir(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_older_page_stay_beside_the_new_ones() {
        let folder = std::env::temp_dir().join(format!("dpr-page-{}", std::process::id()));
        let (next, page) = (folder.join("next"), folder.join("page"));
        for (root, name) in
            [(&next, "assets/b.js"), (&next, "index.html"), (&page, "assets/a.js"), (&page, "index.html")]
        {
            fs::create_dir_all(root.join("assets")).unwrap();
            fs::write(root.join(name), name).unwrap();
        }
        move_files(&next, &page).unwrap();
        assert!(page.join("assets/a.js").is_file() && page.join("assets/b.js").is_file());
        assert!(next.join("index.html").is_file() && !next.join("assets/b.js").exists());
        fs::remove_dir_all(folder).unwrap();
    }
}
