//! The names of closures in a module and its JavaScript.
//!
//! wasm-bindgen calls the functions of closures by their place in the module, which differs between two builds of the same
//! exports. Named by the order in which the JavaScript names them, they are the same in both.

use std::fs;
use std::path::Path;

use crate::failure::{Failure, Outcome};

const PREFIX: &[u8] = b"__wasm_bindgen_func_elem_";

/// Renames the closures of a module and its JavaScript. Names keep their lengths.
pub(super) fn name_by_order(script: &Path, module: &Path) -> Outcome {
    let failed = |file: &Path, e| Failure::new(format!("cannot rename closures in {}: {e}", file.display()));
    let mut text = fs::read(script).map_err(|e| failed(script, e))?;
    let mut code = fs::read(module).map_err(|e| failed(module, e))?;
    let names = names(&text);
    rename(&mut text, &names);
    rename(&mut code, &names);
    fs::write(script, text).map_err(|e| failed(script, e))?;
    fs::write(module, code).map_err(|e| failed(module, e))
}

/// Returns the digits of the names in `bytes`, each once, in order.
fn names(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut names: Vec<Vec<u8>> = Vec::new();
    for at in places(bytes) {
        let digits = digits(&bytes[at..]).to_vec();
        if !names.contains(&digits) {
            names.push(digits);
        }
    }
    names
}

/// Replaces the digits of each name by its place in `names`.
fn rename(bytes: &mut [u8], names: &[Vec<u8>]) {
    for at in places(bytes) {
        let length = digits(&bytes[at..]).len();
        let Some(place) = names.iter().position(|name| name == &bytes[at..at + length]) else { continue };
        bytes[at..at + length].copy_from_slice(format!("{place:0length$}").as_bytes());
    }
}

/// Returns the places of the digits of names.
fn places(bytes: &[u8]) -> Vec<usize> {
    let starts = bytes.windows(PREFIX.len()).enumerate().filter(|(_, window)| *window == PREFIX);
    starts.map(|(at, _)| at + PREFIX.len()).collect()
}

fn digits(bytes: &[u8]) -> &[u8] {
    let length = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    &bytes[..length]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_builds_of_the_same_exports_have_one_script() {
        let script = |a, b| format!("f(__wasm_bindgen_func_elem_{a}); g(__wasm_bindgen_func_elem_{b}, {a})");
        let [first, second] = [script(1909, 1526), script(1918, 1535)].map(|text| {
            let mut text = text.into_bytes();
            let names = names(&text);
            let mut code = b"__wasm_bindgen_func_elem_9999\0".to_vec();
            rename(&mut code, &names);
            assert_eq!(code, b"__wasm_bindgen_func_elem_9999\0", "another name stays");
            rename(&mut text, &names);
            String::from_utf8(text).unwrap()
        });
        assert_eq!(first, "f(__wasm_bindgen_func_elem_0000); g(__wasm_bindgen_func_elem_0001, 1909)");
        assert_eq!(second.replace("1918", "1909"), first);
    }
}
