//! Bucket search as a mode: the server sees which buckets are fetched.

use std::sync::Mutex;

use dpr_core::private::device_key::DeviceKey;
use dpr_files::lock;
use dpr_private::site::BucketSite;

use super::PrivacyError;
use super::device::device;
use super::groups::GroupGuess;
use super::linear::Views;
use super::modes::{Found, Mode, Noise};
use super::questions::EncodedQuestion;

/// Bucket search: the host sees a set of buckets, some of which are decoys.
pub struct Bucket {
    site: Mutex<BucketSite>,
    key: DeviceKey,
}

impl Bucket {
    /// Searches a site, whose decoys are those of `key`.
    pub fn new(site: BucketSite, key: DeviceKey) -> Self {
        Self { site: Mutex::new(site), key }
    }

    fn with<T>(&self, work: impl FnOnce(&mut BucketSite) -> T) -> T {
        work(&mut lock(&self.site))
    }
}

impl Mode for Bucket {
    fn name(&self) -> String {
        self.with(|site| format!("bucket:{}:{}", site.plan().probes(), site.plan().decoys()))
    }

    fn sees(&self) -> String {
        self.with(|site| {
            let (buckets, fetched) = (site.buckets().files.len(), site.plan().fetched());
            format!("{fetched} of {buckets} buckets of {} passages or more", site.buckets().least)
        })
    }

    /// Returns a number for each bucket: 1 where it is fetched. Without noise there are no decoys; drawn, they are those
    /// of another device for each question.
    fn views(&self, questions: &[EncodedQuestion], noise: Noise) -> Result<Views, PrivacyError> {
        self.with(|site| {
            let buckets = site.buckets().files.len();
            let view = |(at, question): (usize, &EncodedQuestion)| {
                let key = match noise {
                    Noise::Drawn(seed) => device(seed, at as u64),
                    Noise::None | Noise::Device => self.key.clone(),
                };
                let (probed, fetched) = site.chosen(question.vector.as_slice(), &key)?;
                let mut view = vec![0f32; buckets];
                let shown = if noise == Noise::None { probed } else { fetched };
                shown.into_iter().for_each(|bucket| view[bucket] = 1.0);
                Ok(view)
            };
            Ok(Views::of(questions.iter().enumerate().map(view).collect::<Result<_, PrivacyError>>()?))
        })
    }

    /// Searches; the candidates are all passages of the buckets that are probed, without those of decoys. The bytes are
    /// those of a page that has kept no bucket.
    fn search(&self, question: &EncodedQuestion, k: usize) -> Result<Option<Found>, PrivacyError> {
        self.with(|site| {
            let vector = question.vector.as_slice();
            let found = site.search(vector, k)?;
            let (probed, _) = site.chosen(vector, &self.key)?;
            let mut candidates = Vec::new();
            for bucket in probed {
                candidates.extend(site.ids(bucket as u32)?);
            }
            Ok(Some(Found {
                candidates,
                hits: found.hits.into_iter().map(|(passage, _)| passage.id).collect(),
                up_bytes: 0,
                down_bytes: site.buckets().bytes() as usize * found.buckets.len(),
            }))
        })
    }

    fn groups(&self) -> Option<GroupGuess> {
        let (centroids, plan) = self.with(|site| (site.centroids().clone(), site.plan()));
        Some(GroupGuess::of(&centroids, plan))
    }
}
