//! Reading a static site by its buckets: few of them for each question, those that it is about and decoys.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use dpr_core::private::bucket::{BucketFile, BucketIndex, Centroids, MAX_BUCKETS, Placed, Plan};
use dpr_core::private::device_key::DeviceKey;
use dpr_data::Passage;

use super::manifest::{SiteBuckets, SiteManifest};
use super::source::{SiteDir, SiteReadError, wrong};
use super::texts::Texts;

/// A static site of which only the buckets that questions need are read.
#[derive(Debug)]
pub struct BucketSite {
    site: SiteDir,
    buckets: SiteBuckets,
    index: BucketIndex,
    /// The texts of the buckets that were read.
    texts: BTreeMap<u32, Texts>,
    plan: Plan,
    key: DeviceKey,
}

/// The passages found for a question, and the buckets fetched for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Fetched {
    /// The best passages with their scores, best first.
    pub hits: Vec<(Passage, f32)>,
    /// The numbers of the buckets that the question needs, ascending: what the host of the files may see, and can link
    /// with the same buckets at another time.
    pub buckets: Vec<u32>,
    /// Those of them that were not read for an earlier question.
    pub read: Vec<u32>,
}

impl BucketSite {
    /// Reads and checks the manifest, the projection and the centroids. `probes` and `decoys` are the numbers of buckets
    /// that are fetched for a question; the decoys are made from `key`.
    ///
    /// # Errors
    /// [`SiteReadError`]: a site without buckets or with fewer than are to be fetched, a file that is missing, not the one
    /// that the manifest names, or makes no sense, a bucket of fewer passages than the manifest promises.
    pub fn open(path: &Path, probes: usize, decoys: usize, key: DeviceKey) -> Result<Self, SiteReadError> {
        let site = SiteDir::open(path)?;
        let buckets = site.manifest.buckets.clone();
        let buckets = buckets.ok_or_else(|| SiteReadError::NoBuckets { path: site.path.clone() })?;
        if let Some(reason) = wrong_buckets(&buckets, site.manifest.passages) {
            return Err(site.damaged(reason));
        }
        let plan = Plan::new(probes, decoys, buckets.files.len())?;
        let projection = site.projection()?;
        let (at, bytes) = site.read(&buckets.centroids)?;
        let centroids = Centroids::from_bytes(&bytes).map_err(|error| wrong(at.clone(), &error))?;
        if centroids.len() != buckets.files.len() {
            let reason =
                format!("it is of {} buckets, the manifest has {}", centroids.len(), buckets.files.len());
            return Err(SiteReadError::Damaged { path: at, reason });
        }
        let index = BucketIndex::new(projection, centroids).map_err(|error| wrong(at, &error))?;
        Ok(Self { site, buckets, index, texts: BTreeMap::new(), plan, key })
    }

    /// Returns what `dpr-static.json` says.
    pub fn manifest(&self) -> &SiteManifest {
        &self.site.manifest
    }

    /// Returns what it says of the buckets.
    pub fn buckets(&self) -> &SiteBuckets {
        &self.buckets
    }

    /// Returns the centroids of the buckets.
    pub fn centroids(&self) -> &Centroids {
        self.index.centroids()
    }

    /// Returns how many buckets are fetched for a question.
    pub fn plan(&self) -> Plan {
        self.plan
    }

    /// Returns what the host of the files sees of a question, in a sentence.
    pub fn sees(&self) -> String {
        let Self { buckets, plan, .. } = self;
        let each = self.site.manifest.passages / buckets.files.len().max(1);
        format!(
            "{} of {} buckets of some {each} passages each, {} of them decoys: what the question is about is in some of \
             them",
            plan.fetched(),
            buckets.files.len(),
            plan.decoys()
        )
    }

    /// Returns the buckets that are probed for the vector of a question, its home first, and all that are fetched with
    /// another device's key, ascending. Nothing is read.
    ///
    /// # Errors
    /// [`SiteReadError::Bucket`] for a vector that does not fit.
    pub fn chosen(&self, vector: &[f32], key: &DeviceKey) -> Result<(Vec<usize>, Vec<usize>), SiteReadError> {
        let (home, centroids) = (self.index.home(vector)?, self.index.centroids());
        Ok((centroids.probed(home, self.plan), centroids.fetched(home, self.plan, key)))
    }

    /// Reads the buckets that a question needs, in ascending order, and returns the `k` best passages in them; all where
    /// there are fewer. Decoys are read and checked as the others are, and what is in them may be found.
    ///
    /// # Errors
    /// [`SiteReadError`] for a vector of another length, `k` 0, and buckets that are missing or make no sense.
    pub fn search(&mut self, vector: &[f32], k: usize) -> Result<Fetched, SiteReadError> {
        let buckets = self.index.fetched(vector, self.plan, &self.key)?;
        let buckets: Vec<u32> = buckets.into_iter().map(|bucket| bucket as u32).collect();
        let mut read = Vec::new();
        for bucket in &buckets {
            if !self.texts.contains_key(bucket) {
                self.read(*bucket)?;
                read.push(*bucket);
            }
        }
        let found = self.index.search(vector, &buckets, k)?;
        let hits = found.into_iter().map(|found| Ok((self.passage(found)?, found.score)));
        Ok(Fetched { hits: hits.collect::<Result<_, SiteReadError>>()?, buckets, read })
    }

    fn read(&mut self, bucket: u32) -> Result<(), SiteReadError> {
        let Some(of) = self.buckets.files.get(bucket as usize) else {
            return Err(self.site.damaged(format!("it has no bucket {bucket}")));
        };
        let (at, bytes) = self.site.read(&of.file)?;
        let parts = BucketFile::read(&bytes, of.passages).map_err(|error| wrong(at.clone(), &error))?;
        self.index.add(bucket, parts.codes, of.passages).map_err(|error| wrong(at.clone(), &error))?;
        self.texts.insert(bucket, Texts::read(at, parts.texts.to_vec(), of.passages)?);
        Ok(())
    }

    fn passage(&self, Placed { bucket, place, .. }: Placed) -> Result<Passage, SiteReadError> {
        let texts = self.texts.get(&bucket);
        let missing = || self.site.damaged(format!("bucket {bucket} was not read"));
        texts.ok_or_else(missing)?.passage(place as usize)
    }

    /// Returns the ids of the passages of a bucket, which is read where it was not.
    ///
    /// # Errors
    /// [`SiteReadError`] for a bucket that there is not, or that makes no sense.
    pub fn ids(&mut self, bucket: u32) -> Result<Vec<String>, SiteReadError> {
        if !self.texts.contains_key(&bucket) {
            self.read(bucket)?;
        }
        let texts = self.texts.get(&bucket).map(Texts::all).transpose()?.unwrap_or_default();
        Ok(texts.into_iter().map(|passage| passage.id).collect())
    }
}

/// Returns what is wrong with buckets: what a host could see more by than it says, or what makes no sense.
fn wrong_buckets(buckets: &SiteBuckets, passages: usize) -> Option<String> {
    let SiteBuckets { least, files, .. } = buckets;
    if files.is_empty() || files.len() > MAX_BUCKETS {
        return Some(format!("it has {} buckets, 1 to {MAX_BUCKETS} are possible", files.len()));
    }
    let sum = files.iter().fold(0, |sum: usize, bucket| sum.saturating_add(bucket.passages));
    if sum != passages {
        return Some(format!("its buckets hold {sum} passages, it says {passages}"));
    }
    if let Some((at, bucket)) =
        (0..).zip(files).find(|(_, bucket): &(u32, _)| bucket.passages < (*least).max(1))
    {
        let got = bucket.passages;
        return Some(format!("bucket {at} has {got} passages, fewer than the {least} that were promised"));
    }
    if files.iter().any(|bucket| bucket.file.entry.bytes != buckets.bytes()) {
        return Some("its buckets do not all have one length, by which they could be told apart".to_owned());
    }
    let names: BTreeSet<&str> = files.iter().map(|bucket| bucket.file.entry.sha256.as_str()).collect();
    (names.len() != files.len()).then(|| "two of its buckets are one file".to_owned())
}
