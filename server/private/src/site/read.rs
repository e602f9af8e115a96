//! Reading a static site: the same files, checks and ranking as in a page, where no browser is.

use std::path::Path;

use dpr_core::private::local::{Found, LocalIndex};
use dpr_data::Passage;

use super::limits;
use super::manifest::SiteManifest;
use super::source::{SiteDir, SiteReadError, wrong};
use super::texts::Texts;

/// A static site that is searched where its files are.
#[derive(Debug)]
pub struct Site {
    manifest: SiteManifest,
    index: LocalIndex,
    /// The files of texts, with the row of each one's first passage.
    texts: Vec<(usize, Texts)>,
}

impl Site {
    /// Reads and checks all files but the question encoder's and those of buckets.
    ///
    /// # Errors
    /// [`SiteReadError`]: `path` is neither a `dpr-static.json` nor a folder with one, or a file that it names is
    /// missing, too large, not the one that it names, or makes no sense.
    pub fn open(path: &Path) -> Result<Self, SiteReadError> {
        let site = SiteDir::open(path)?;
        let manifest = &site.manifest;
        let sum = manifest.parts.iter().fold(0, |sum: usize, part| sum.saturating_add(part.passages));
        if sum != manifest.passages {
            let of = manifest.passages;
            return Err(site.damaged(format!("its parts hold {sum} passages, it says {of}")));
        }
        let bytes = manifest.parts.iter().flat_map(|part| [part.codes.entry.bytes, part.texts.entry.bytes]);
        let bytes = bytes.fold(0, u64::saturating_add);
        let most = limits::MOST.parts;
        if bytes > most {
            return Err(site.damaged(format!("its parts have {bytes} bytes, {most} are possible")));
        }
        let mut index = LocalIndex::new(site.projection()?);
        let mut texts = Vec::with_capacity(manifest.parts.len());
        for part in &manifest.parts {
            let (at, codes) = site.read(&part.codes)?;
            let first = index.len();
            index.add(&codes, part.passages).map_err(|error| wrong(at, &error))?;
            let (at, bytes) = site.read(&part.texts)?;
            texts.push((first, Texts::read(at, bytes, part.passages)?));
        }
        Ok(Self { manifest: site.manifest, index, texts })
    }

    /// Returns what `dpr-static.json` says.
    pub fn manifest(&self) -> &SiteManifest {
        &self.manifest
    }

    /// Returns the `k` best passages for a question's vector with their scores, best first, as a page ranks them; all
    /// where there are fewer.
    ///
    /// # Errors
    /// [`SiteReadError::Question`] for a vector of another length and for `k` 0, [`SiteReadError::Damaged`] for texts
    /// that cannot be opened.
    pub fn search(&self, vector: &[f32], k: usize) -> Result<Vec<(Passage, f32)>, SiteReadError> {
        let found = self.index.search(vector, k)?;
        found.into_iter().map(|Found { row, score }| Ok((self.passage(row as usize)?, score))).collect()
    }

    /// Returns the passage of a row, in the file that begins last before it.
    fn passage(&self, row: usize) -> Result<Passage, SiteReadError> {
        let at = self.texts.partition_point(|(first, _)| *first <= row).saturating_sub(1);
        let (first, texts) = &self.texts[at];
        texts.passage(row - first)
    }
}
