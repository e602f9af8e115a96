//! The number formats of weights that `dpr export-web` makes for pages.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A number format of the weights of a page. Single precision is not among them: a page that asks for it gets the
/// encoder's own file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WebFormat {
    /// Matrices in half precision.
    F16,
    /// Matrices in 8 bits with a scale a row.
    Q8,
    /// Words and layers in 4 bits with a step for each 32 of a row, and the other matrices in 8 bits. A page opens them
    /// into 8 bits, so the encoder has the speed of `q8` and takes its memory.
    Q4,
}

/// The name is not that of a format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown format {0:?}: it is one of f16, q8, q4")]
pub struct UnknownFormat(String);

impl WebFormat {
    /// Every format, the most exact first.
    pub const ALL: [Self; 3] = [Self::F16, Self::Q8, Self::Q4];

    /// The formats of an export that is not told which.
    pub const DEFAULT: [Self; 2] = [Self::F16, Self::Q8];

    /// Returns the name, by which the manifest lists the weights: `f16`, `q8` or `q4`.
    pub fn name(self) -> &'static str {
        match self {
            Self::F16 => "f16",
            Self::Q8 => "q8",
            Self::Q4 => "q4",
        }
    }
}

impl FromStr for WebFormat {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        let known = Self::ALL.into_iter().find(|format| format.name() == text);
        known.ok_or_else(|| UnknownFormat(text.into()))
    }
}

impl fmt::Display for WebFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
