//! The secret of one device, from which noise and decoys are made.

use std::fmt;

use sha2::{Digest as _, Sha256};

/// The secret of one device that its noise and its decoys are made from: 32 bytes from the platform's source of
/// randomness.
#[derive(Clone)]
pub struct DeviceKey([u8; 32]);

impl DeviceKey {
    /// Takes random bytes. They must be secret: whoever knows them takes the noise off and tells decoys apart.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the HMAC-SHA256 of a message under this key.
    pub(super) fn mac(&self, message: &[u8]) -> [u8; 32] {
        mac(&self.0, message)
    }
}

impl fmt::Debug for DeviceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DeviceKey(..)")
    }
}

/// Bytes of a block of SHA-256.
const BLOCK: usize = 64;

/// Returns the HMAC-SHA256 of a message (RFC 2104).
pub(super) fn mac(key: &[u8; 32], message: &[u8]) -> [u8; 32] {
    let padded = |pad: u8| -> [u8; BLOCK] { std::array::from_fn(|at| key.get(at).unwrap_or(&0) ^ pad) };
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_not_printed() {
        assert_eq!(format!("{:?}", DeviceKey::new([7; 32])), "DeviceKey(..)");
    }
}
