//! Keys of devices, by which buckets are drawn.

use dpr_core::private::device_key::DeviceKey;

/// Returns the key of some device.
pub(super) fn device(seed: u64, question: u64) -> DeviceKey {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8..16].copy_from_slice(&question.to_le_bytes());
    key[16] = 1;
    DeviceKey::new(key)
}
