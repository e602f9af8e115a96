//! wasm-bindgen for the browser modules: `xtask-bindgen RAW.wasm FOLDER` writes the module and its JavaScript.
//!
//! The library behind the `wasm-bindgen` program, of the version in Cargo.lock. The program itself is five times as
//! much to compile: it can also run tests in browsers.

use std::process::ExitCode;

use wasm_bindgen_cli_support::Bindgen;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [module, folder] = arguments.as_slice() else {
        eprintln!("usage: xtask-bindgen RAW.wasm FOLDER");
        return ExitCode::from(2);
    };
    let mut bindgen = Bindgen::new();
    // Their types are in wasm/npm/src/worker/wasm-modules.d.ts, which is there before a module is.
    // Without an address the module is looked for beside its JavaScript, as the program has it too.
    bindgen.input_path(module).out_name("dpr_wasm").typescript(false).omit_default_module_path(false);
    match bindgen.web(true).and_then(|web| web.generate(folder)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cannot make the JavaScript of {module}: {error:?}");
            ExitCode::FAILURE
        }
    }
}
