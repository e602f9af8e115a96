//! Private search: blurred questions and encrypted ones. Secrets stay in this module's memory; JavaScript sees what is
//! sent, and what was found.

mod blurred;
mod encrypted;

use wasm_bindgen::prelude::*;

pub use blurred::{Blurred, BlurredQuestion};
pub use encrypted::{EncryptedQuestion, EncryptedSearch, EncryptedTables, PrivateTables};

/// Returns a JavaScript `Error` whose property `code` tells scripts what happened.
fn coded(code: &str, error: impl std::fmt::Display) -> JsValue {
    let made = js_sys::Error::new(&error.to_string());
    // An object that was just made takes every property.
    let _ = js_sys::Reflect::set(&made, &"code".into(), &code.into());
    made.into()
}
