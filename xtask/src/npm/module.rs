//! The wasm modules: compiled, given their JavaScript, optimised.

use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Outcome};
use crate::jobs::Done;
use crate::paths::{absolute, built};
use crate::process::{self, cargo, command};
use crate::setup::tools;
use crate::setup::wasm_target::WasmTarget;
use crate::stamp::Stamp;

/// Builds for wasm32 have their own folder: another compiler may make them.
const TARGET_DIR: &str = "target/wasm";
/// The cfg is what getrandom 0.3 asks for on this target.
const RUSTFLAGS: &str = "-C target-feature=+simd128 --cfg getrandom_backend=\"wasm_js\"";

/// One of the modules; a page downloads only the one it runs.
pub(crate) struct Module {
    pub(crate) name: &'static str,
    /// The module whose JavaScript it runs under: its own, or another's that is the same to the byte.
    script: &'static str,
    features: &'static [&'static str],
    /// Most bytes it may take on the wire, compressed.
    pub(crate) limit: u64,
    /// The effort of wasm-opt: the CPU module is optimised for speed. The WebGPU module, whose speed is the GPU's, is
    /// optimised for its compressed size: with `-Oz` it is 15 % smaller on the disk and 4 % larger on the wire, after
    /// four times the work.
    ///
    /// Rust's linker puts the stack first in memory, so that no program uses its first KiB but one whose stack has
    /// overflowed: constants below that go into the offsets of loads and stores.
    optimise: &'static [&'static str],
}

const LOW_MEMORY: &str = "--low-memory-unused";
const ADDED_CONSTANTS: &str = "--optimize-added-constants-propagate";

/// The modules: for the CPU, for the CPU of engines with relaxed SIMD, and for WebGPU.
pub(crate) const MODULES: [Module; 3] = [
    Module {
        name: "cpu",
        script: "cpu",
        features: &[],
        limit: 850_000,
        optimise: &["-O3", LOW_MEMORY, ADDED_CONSTANTS],
    },
    Module {
        name: "relaxed",
        script: "cpu",
        features: &["--features", "relaxed-simd"],
        limit: 860_000,
        optimise: &["-O3", LOW_MEMORY, ADDED_CONSTANTS, "--enable-relaxed-simd"],
    },
    Module {
        name: "webgpu",
        script: "webgpu",
        features: &["--features", "webgpu"],
        limit: 5_000_000,
        optimise: &["-O1"],
    },
];

/// WebAssembly features that browsers have had since 2023 and rustc uses in every module.
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
        format!("wasm/npm/wasm/{}", self.name)
    }

    /// The module's code.
    pub(crate) fn wasm(&self) -> String {
        format!("{}/dpr_wasm_bg.wasm", self.folder())
    }

    fn script(&self) -> String {
        format!("wasm/npm/wasm/{}/dpr_wasm.js", self.script)
    }

    /// Returns the stamp of the inputs that decide the module.
    fn stamp(&self, target: WasmTarget) -> Outcome<Stamp> {
        let inputs = ["Cargo.lock", "Cargo.toml", "core", "wasm/Cargo.toml", "wasm/src", "xtask/bindgen"];
        let way = format!("{target:?} {RUSTFLAGS} {:?} {:?} {WASM_FEATURES:?}", self.features, self.optimise);
        Stamp::of(&format!("module-{}", self.name), &inputs, &[&way])
    }

    /// Returns whether the module that is there is the one that would be built.
    pub(crate) fn is_fresh(&self) -> Outcome<bool> {
        let outputs = [self.wasm(), self.script()];
        WasmTarget::detect()
            .map_or(Ok(false), |target| Ok(self.stamp(target)?.is_fresh(&[&outputs[0], &outputs[1]])))
    }

    /// Returns the path of the module that `cargo` makes.
    fn raw(&self) -> PathBuf {
        Path::new(TARGET_DIR).join(format!("dpr_wasm-{}.wasm", self.name))
    }
}

/// The time at which a module is needed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needed {
    /// As soon as what is built beside it.
    Now,
    /// After what is built beside it: compiled at a low priority.
    Later,
}

/// Compiles `dpr-wasm` with the module's features.
pub(super) fn compile(module: &Module, needed: Needed) -> Outcome<Done> {
    if module.is_fresh()? {
        return Ok(Done::note("up to date"));
    }
    let target = wasm_target()?;
    let mut arguments = vec!["build", "--profile", "wasm", "--package", "dpr-wasm"];
    arguments.extend(module.features);
    arguments.extend(target.cargo_arguments());
    let mut build = cargo(&arguments);
    build.env("CARGO_TARGET_DIR", absolute(TARGET_DIR)).env("RUSTFLAGS", RUSTFLAGS);
    target.prepare(&mut build);
    if needed == Needed::Later {
        build = process::at_low_priority(&build);
    }
    process::run(&mut build)?;
    // The next module is built to the same place.
    let made = Path::new(TARGET_DIR).join("wasm32-unknown-unknown/wasm/dpr_wasm.wasm");
    fs::copy(&made, module.raw())
        .map_err(|e| Failure::new(format!("cannot copy {}: {e}", made.display())))?;
    Ok(Done::default())
}

/// Makes the module's JavaScript, optimises the module, and puts both into the package's folder.
pub(super) fn bind(module: &Module) -> Outcome<Done> {
    let stamp = module.stamp(wasm_target()?)?;
    if !stamp.is_fresh(&[&module.wasm(), &module.script()]) {
        stamp.clear();
        make(module)?;
        stamp.write()?;
    }
    let (raw, packed) = sizes(Path::new(&module.wasm()))?;
    Ok(Done::note(format!("{:.2} MB, {:.2} MB gzip", raw as f64 / 1e6, packed as f64 / 1e6)))
}

fn make(module: &Module) -> Outcome {
    let work = Path::new(TARGET_DIR).join("bindgen").join(module.name);
    let _ = fs::remove_dir_all(&work);
    process::run(&mut command(built("xtask-bindgen"), &[module.raw(), work.clone()]))?;
    let (bound, small) = (work.join("dpr_wasm_bg.wasm"), work.join("small.wasm"));
    let (bound_text, small_text) = (bound.to_string_lossy(), small.to_string_lossy());
    let mut arguments = module.optimise.to_vec();
    arguments.extend(["-o", &small_text, &bound_text]);
    arguments.extend(WASM_FEATURES);
    process::run(&mut command(tools::WASM_OPT.path(), &arguments))?;
    let failed = |e: std::io::Error| Failure::new(format!("cannot write {}: {e}", module.folder()));
    fs::rename(&small, &bound).map_err(failed)?;
    let folder = module.folder();
    if module.script != module.name {
        let [new, script] = [work.join("dpr_wasm.js"), PathBuf::from(module.script())];
        if fs::read(&new).map_err(failed)? != fs::read(&script).map_err(failed)? {
            let message =
                format!("the module {} needs another script than {}", module.name, script.display());
            let fix =
                "compare the two: the modules export the same functions and take the same from the page";
            return Err(Failure::new(message).fix(fix));
        }
        fs::remove_file(new).map_err(failed)?;
    }
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(failed)?;
    for entry in fs::read_dir(&work).map_err(failed)? {
        let file = entry.map_err(failed)?.path();
        let Some(name) = file.file_name() else { continue };
        fs::copy(&file, Path::new(&folder).join(name)).map_err(failed)?;
    }
    Ok(())
}

fn wasm_target() -> Outcome<WasmTarget> {
    WasmTarget::detect()
        .ok_or_else(|| Failure::new("no wasm32 standard library").fix("run `cargo xtask setup`"))
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
