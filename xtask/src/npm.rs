//! The browser side: two wasm modules, the npm package around them, and the search page built from the package.

use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Outcome};
use crate::paths::{PAGE, absolute};
use crate::process::{self, cargo, command};
use crate::setup::tools::{wasm_bindgen, wasm_opt};
use crate::setup::wasm_target::WasmTarget;
use crate::stamp::Stamp;

/// The folder of the npm package.
const PACKAGE: &str = "wasm/npm";
/// The package as it would be published; the search page depends on this file.
const TARBALL: &str = "wasm/npm/dpr-web.tgz";
/// Builds for wasm32 have their own folder: another compiler may make them.
const TARGET_DIR: &str = "target/wasm";
/// The cfg is what getrandom 0.3 asks for on this target.
const RUSTFLAGS: &str = "-C target-feature=+simd128 --cfg getrandom_backend=\"wasm_js\"";

/// One of the two modules; a page downloads only the one it runs.
pub(crate) struct Module {
    pub(crate) name: &'static str,
    features: &'static [&'static str],
    /// Most bytes it may take on the wire, compressed.
    pub(crate) limit: u64,
    /// How wasm-opt works on it: the CPU module for speed, the WebGPU module, whose speed is the GPU's, for size.
    optimise: &'static str,
}

/// Both modules.
pub(crate) const MODULES: [Module; 2] = [
    Module { name: "cpu", features: &[], limit: 1_500_000, optimise: "-O3" },
    Module { name: "webgpu", features: &["--features", "webgpu"], limit: 5_000_000, optimise: "-Oz" },
];

/// WebAssembly features that browsers have had since 2023 and rustc uses.
const WASM_FEATURES: [&str; 7] = [
    "--enable-simd",
    "--enable-bulk-memory",
    "--enable-nontrapping-float-to-int",
    "--enable-sign-ext",
    "--enable-mutable-globals",
    "--enable-reference-types",
    "--enable-multivalue",
];

impl Module {
    fn folder(&self) -> String {
        format!("{PACKAGE}/wasm/{}", self.name)
    }

    /// The module's code.
    pub(crate) fn wasm(&self) -> String {
        format!("{}/dpr_wasm_bg.wasm", self.folder())
    }

    fn script(&self) -> String {
        format!("{}/dpr_wasm.js", self.folder())
    }
}

/// Builds modules, package and page; skips what is up to date.
pub(crate) fn build() -> Outcome {
    let target = WasmTarget::detect()
        .ok_or_else(|| Failure::new("no wasm32 standard library").fix("run `cargo xtask setup`"))?;
    for module in &MODULES {
        build_module(module, target)
            .map_err(|failure| failure.during(&format!("browser module `{}`", module.name)))?;
    }
    for module in &MODULES {
        let (raw, packed) = sizes(Path::new(&module.wasm()))?;
        println!("npm: {:<7} {:>6.2} MB, {:.2} MB gzip", module.name, raw as f64 / 1e6, packed as f64 / 1e6);
    }
    build_package().map_err(|failure| failure.during("npm package"))?;
    build_page().map_err(|failure| failure.during("search page"))
}

fn build_module(module: &Module, target: WasmTarget) -> Outcome {
    let inputs = ["Cargo.lock", "Cargo.toml", "core", "wasm/Cargo.toml", "wasm/src"];
    let way = format!("{target:?} {RUSTFLAGS} {:?} {} {WASM_FEATURES:?}", module.features, module.optimise);
    let stamp = Stamp::of(&format!("module-{}", module.name), &inputs, &[&way])?;
    if stamp.is_fresh(&[&module.wasm(), &module.script()]) {
        println!("npm: module `{}` is up to date", module.name);
        return Ok(());
    }
    stamp.clear();
    let compiled = compile(module, target)?;
    let bindgen = wasm_bindgen()
        .ok_or_else(|| Failure::new("wasm-bindgen is missing").fix("run `cargo xtask setup`"))?;
    let work = Path::new(TARGET_DIR).join("bindgen").join(module.name);
    let _ = fs::remove_dir_all(&work);
    let (work_text, compiled_text) = (work.to_string_lossy(), compiled.to_string_lossy());
    let arguments = ["--target", "web", "--out-name", "dpr_wasm", "--out-dir", &work_text, &compiled_text];
    process::run(&mut command(bindgen, &arguments))?;
    println!("npm: wasm-opt {} on module `{}`", module.optimise, module.name);
    let (bound, small) = (work.join("dpr_wasm_bg.wasm"), work.join("small.wasm"));
    let (bound_text, small_text) = (bound.to_string_lossy(), small.to_string_lossy());
    let mut arguments = vec![module.optimise, "-o", &small_text, &bound_text];
    arguments.extend(WASM_FEATURES);
    process::run(&mut command(wasm_opt(), &arguments))?;
    let failed = |e: std::io::Error| Failure::new(format!("cannot write {}: {e}", module.folder()));
    fs::rename(&small, &bound).map_err(failed)?;
    let folder = module.folder();
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(failed)?;
    for entry in fs::read_dir(&work).map_err(failed)? {
        let file = entry.map_err(failed)?.path();
        let Some(name) = file.file_name() else { continue };
        fs::copy(&file, Path::new(&folder).join(name)).map_err(failed)?;
    }
    stamp.write()
}

/// Compiles `dpr-wasm` and returns the raw module.
fn compile(module: &Module, target: WasmTarget) -> Outcome<PathBuf> {
    println!("npm: compiling module `{}` (several minutes the first time)", module.name);
    let mut arguments = vec!["build", "--profile", "wasm", "--package", "dpr-wasm"];
    arguments.extend(module.features);
    arguments.extend(target.cargo_arguments());
    let mut build = cargo(&arguments);
    build.env("CARGO_TARGET_DIR", absolute(TARGET_DIR)).env("RUSTFLAGS", RUSTFLAGS);
    target.prepare(&mut build);
    process::run(&mut build)?;
    Ok(Path::new(TARGET_DIR).join("wasm32-unknown-unknown/wasm/dpr_wasm.wasm"))
}

fn build_package() -> Outcome {
    let (cpu, webgpu) = (MODULES[0].folder(), MODULES[1].folder());
    let inputs: Vec<String> = ["src", "package.json", "package-lock.json", "tsconfig.json", "README.md"]
        .iter()
        .map(|name| format!("{PACKAGE}/{name}"))
        .chain([cpu, webgpu])
        .collect();
    let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
    let stamp = Stamp::of("package", &inputs, &[])?;
    if stamp.is_fresh(&[TARBALL, "wasm/npm/dist"]) {
        println!("npm: package is up to date");
        return Ok(());
    }
    stamp.clear();
    npm(PACKAGE, &["run", "--silent", "build"])?;
    npm(PACKAGE, &["run", "--silent", "tarball"])?;
    stamp.write()
}

fn build_page() -> Outcome {
    let stamp = Stamp::of("page", &["web-demo", TARBALL], &[])?;
    if stamp.is_fresh(&[&format!("{PAGE}/index.html")]) {
        println!("npm: search page is up to date");
        return Ok(());
    }
    stamp.clear();
    npm("web-demo", &["run", "--silent", "use-package"])?;
    npm("web-demo", &["run", "--silent", "build"])?;
    stamp.write()
}

fn npm(folder: &str, arguments: &[&str]) -> Outcome {
    println!("npm: npm {} in {folder}", arguments.join(" "));
    process::run(command("npm", arguments).current_dir(folder))
}

/// Bytes of a file, and of the file compressed by gzip.
pub(crate) fn sizes(file: &Path) -> Outcome<(u64, u64)> {
    let raw =
        fs::metadata(file).map_err(|e| Failure::new(format!("cannot read {}: {e}", file.display())))?.len();
    let name = file.to_string_lossy();
    let script = "import sys, zlib; c = zlib.compressobj(9, zlib.DEFLATED, 31); d = open(sys.argv[1], 'rb').read(); \
                  print(len(c.compress(d)) + len(c.flush()))";
    let packed = process::output(&mut command("python3", &["-c", script, &name]))?;
    let packed = packed.trim().parse().map_err(|_| Failure::new(format!("no size of {name}: {packed}")))?;
    Ok((raw, packed))
}
