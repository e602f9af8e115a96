//! wasm-bindgen for the browser modules: `xtask-bindgen RAW.wasm FOLDER` writes the module and its JavaScript.
//!
//! The library behind the `wasm-bindgen` program, of the version in Cargo.lock. The program itself is five times as
//! much to compile: it can also run tests in browsers.

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use wasm_bindgen_cli_support::Bindgen;

/// Prefix of the names that wasm-bindgen gives to exported functions without a name.
const NUMBERED: &str = "__wasm_bindgen_func_elem_";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [module, folder] = arguments.as_slice() else {
        eprintln!("usage: xtask-bindgen RAW.wasm FOLDER");
        return ExitCode::from(2);
    };
    match generate(module, Path::new(folder)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cannot make the JavaScript of {module}: {error:?}");
            ExitCode::FAILURE
        }
    }
}

/// Writes the module and its JavaScript. wasm-bindgen names an exported function without a name by its index in the
/// module, which differs between builds with the same interface. They are renamed by their order among the exports, so
/// that two builds can share one JavaScript.
fn generate(module: &str, folder: &Path) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut bindgen = Bindgen::new();
    // Their types are in wasm/npm/src/worker/wasm-modules.d.ts, which is there before a module is.
    // Without an address the module is looked for beside its JavaScript, as the program has it too.
    bindgen.input_path(module).out_name("dpr_wasm").typescript(false).omit_default_module_path(false);
    let mut output = bindgen.web(true)?.generate_output()?;
    let exports = output.wasm_mut().exports.iter_mut().filter(|export| export.name.starts_with(NUMBERED));
    let renamed: Vec<(String, String)> = exports
        .enumerate()
        .map(|(at, export)| (std::mem::replace(&mut export.name, counted(at)), counted(at)))
        .collect();
    output.emit(folder)?;
    let script = folder.join("dpr_wasm.js");
    let mut text = std::fs::read_to_string(&script)?;
    for (name, new) in renamed {
        text = rename(&text, &name, &new);
    }
    std::fs::write(script, text)?;
    Ok(())
}

/// Returns the new name of the function that is number `at` among those without a name.
fn counted(at: usize) -> String {
    format!("__dpr_func_{at}")
}

/// Returns a script in which the function `name` is called `new`.
fn rename(script: &str, name: &str, new: &str) -> String {
    let mut parts = script.split(name);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        // Whole names only: one name may be the beginning of another (`elem_34` and `elem_34_27`).
        text += if part.starts_with(|next: char| next == '_' || next.is_alphanumeric()) { name } else { new };
        text += part;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_replaced_where_it_is_whole() {
        let script = "elem_34(elem_344, elem_34_27);";
        let renamed = rename(script, "elem_34", "f");
        assert_eq!(renamed, "f(elem_344, elem_34_27);");
        assert_eq!(rename(&rename(&renamed, "elem_344", "g"), "elem_34_27", "h"), "f(g, h);");
    }
}
