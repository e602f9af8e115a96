//! Numbers of a `config.json`, with their limits.

use serde_json::Value;

use super::ConfigError;

/// The largest size any one dimension of a config may have; a larger one is a damaged or hostile file.
pub(super) const MAX_SIZE: u64 = 1 << 20;

/// The most layers of an encoder, each of which takes memory before its weights are there.
pub(super) const MAX_LAYERS: u64 = 1024;

/// The most buckets of relative positions: they reach to a distance of 128 in each direction.
pub(super) const MAX_BUCKETS: u64 = 256;

/// Returns a size from 1 to [`MAX_SIZE`], `default` where the field is absent.
pub(super) fn size(root: &Value, field: &'static str, default: Option<u64>) -> Result<usize, ConfigError> {
    size_up_to(root, field, default, MAX_SIZE)
}

/// Returns a size from 1 to `most`, `default` where the field is absent.
pub(super) fn size_up_to(
    root: &Value,
    field: &'static str,
    default: Option<u64>,
    most: u64,
) -> Result<usize, ConfigError> {
    let got = match (root.get(field), default) {
        (None | Some(Value::Null), Some(default)) => default,
        (value, _) => {
            value.and_then(Value::as_u64).ok_or(ConfigError::Field { field, expected: "a whole number" })?
        }
    };
    if got == 0 || got > most {
        return Err(ConfigError::Value {
            field,
            got: got.to_string(),
            expected: format!("it must be from 1 to {most}"),
        });
    }
    Ok(got as usize)
}

/// Returns a number from 0 to [`MAX_SIZE`], `default` where the field is absent.
pub(super) fn index(root: &Value, field: &'static str, default: u32) -> Result<u32, ConfigError> {
    match root.get(field) {
        None | Some(Value::Null) => Ok(default),
        Some(value) => value
            .as_u64()
            .filter(|got| *got <= MAX_SIZE)
            .map(|got| got as u32)
            .ok_or(ConfigError::Field { field, expected: "a whole number up to 1048576" }),
    }
}

/// Returns a number, `default` where the field is absent.
pub(super) fn float(root: &Value, field: &'static str, default: f64) -> Result<f64, ConfigError> {
    match root.get(field) {
        None | Some(Value::Null) => Ok(default),
        Some(value) => value.as_f64().ok_or(ConfigError::Field { field, expected: "a number" }),
    }
}
