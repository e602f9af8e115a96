//! Bucket search, in the CPU module: choosing buckets for a question, and ranking those that a page fetched.

use dpr_core::private::bucket::{BucketIndex as Index, Centroids, Placed, Plan};
use dpr_core::private::device_key::DeviceKey;
use dpr_core::private::projection::Projection;
use wasm_bindgen::prelude::*;

/// The centroids of a static index, and the buckets of it that the page has fetched.
#[wasm_bindgen]
pub struct BucketIndex {
    inner: Index,
}

#[wasm_bindgen]
impl BucketIndex {
    /// Makes an index of which no bucket was fetched from the bytes of its projection and of its centroids.
    ///
    /// # Errors
    /// A JavaScript `Error` that says what is wrong with one of them.
    #[wasm_bindgen(constructor)]
    pub fn new(projection: &[u8], centroids: &[u8]) -> Result<BucketIndex, JsError> {
        let (projection, centroids) =
            (Projection::from_bytes(projection)?, Centroids::from_bytes(centroids)?);
        Ok(Self { inner: Index::new(projection, centroids)? })
    }

    /// Returns the number of buckets.
    #[wasm_bindgen(getter)]
    pub fn buckets(&self) -> usize {
        self.inner.centroids().len()
    }

    /// Returns the numbers of the buckets that are fetched for the vector of a question, in ascending order: `probes`
    /// that it is about and `decoys` that this device's key gives.
    ///
    /// # Errors
    /// A JavaScript `Error` for numbers of buckets that are not possible, a vector of another length or with a number
    /// that is not finite, and a key that has not 32 bytes.
    pub fn choose(
        &self,
        question: &[f32],
        probes: usize,
        decoys: usize,
        key: &[u8],
    ) -> Result<Vec<u32>, JsError> {
        let key: [u8; 32] = key.try_into().map_err(|_| JsError::new("a device key has 32 bytes"))?;
        let plan = Plan::new(probes, decoys, self.inner.centroids().len())?;
        let fetched = self.inner.fetched(question, plan, &DeviceKey::new(key))?;
        Ok(fetched.into_iter().map(|bucket| bucket as u32).collect())
    }

    /// Adds the codes of a bucket, which has so many passages.
    ///
    /// # Errors
    /// A JavaScript `Error` that says what is wrong with the codes; the index is then as it was.
    pub fn add(&mut self, bucket: u32, codes: &[u8], passages: usize) -> Result<(), JsError> {
        Ok(self.inner.add(bucket, codes, passages)?)
    }

    /// Returns the best `k` passages of these buckets for the vector of a question: bucket, place in it and score of
    /// each, best first, `[k, 3]`.
    ///
    /// # Errors
    /// A JavaScript `Error` for a bucket that was not added, a vector that does not fit, and `k` = 0.
    pub fn search(&self, question: &[f32], buckets: &[u32], k: usize) -> Result<Vec<f64>, JsError> {
        let found = self.inner.search(question, buckets, k)?;
        let numbers =
            |found: Placed| [f64::from(found.bucket), f64::from(found.place), f64::from(found.score)];
        Ok(found.into_iter().flat_map(numbers).collect())
    }
}
