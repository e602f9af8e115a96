//! The rate of requests that a client may send.

/// The rate at which a client may send: so often in the long run, and so many at once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    pub(crate) per_second: f64,
    pub(crate) burst: u32,
}

impl Rate {
    /// Returns the rate of `per_second` requests (above 0.000001 and up to a million) and `burst` at once (at least
    /// one), or `None` for other numbers.
    pub fn new(per_second: f64, burst: u32) -> Option<Self> {
        (per_second > 1e-6 && per_second <= 1e6 && burst > 0).then_some(Self { per_second, burst })
    }
}
