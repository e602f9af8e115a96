//! `dpr search --privacy local` and `--privacy bucket`: a static site, searched as a page does.

use std::path::Path;

use dpr_core::TextEncoder;
use dpr_data::{Passage, Question};
use dpr_encode::model::ModelDir;
use dpr_index::search::Hit;
use dpr_private::site::{BucketSite, Site, SiteManifest};
use serde::Serialize;

use super::CliError;
use super::model_of_index::model_of_index;
use super::privacy::PrivacyArgs;
use super::source_args::SourceArgs;
use crate::location::Location;

/// A static site and the encoder of questions to it.
pub(super) struct Local {
    site: Site,
    encoder: TextEncoder,
}

impl Local {
    /// Reads the files of the site, all of which are checked, and loads the question encoder.
    pub(super) fn open(source: &SourceArgs) -> Result<Self, CliError> {
        let site = Site::open(site_of(source, "local")?)?;
        Ok(Self { encoder: encoder(source, "local", site.manifest())?, site })
    }

    /// Returns the fingerprint of the model.
    pub(super) fn model(&self) -> &str {
        &self.site.manifest().model_fingerprint
    }

    /// Returns the `k` best passages for a question, best first.
    pub(super) fn search(&self, question: &Question, k: usize) -> Result<Vec<Hit>, CliError> {
        let vector = self.encoder.encode_question(&question.text)?;
        Ok(hits(self.site.search(vector.as_slice(), k)?))
    }
}

/// A static site of which only the buckets that questions need are read, and the encoder of questions to it.
pub(super) struct Buckets {
    site: BucketSite,
    encoder: TextEncoder,
    /// A note was printed that fewer were found than asked for.
    has_noted: bool,
}

/// The data of one question that the host of a site may see.
#[derive(Debug, Serialize)]
pub(super) struct HostView {
    /// `bucket`
    pub(super) mode: &'static str,
    /// A sentence about the data that it sees.
    pub(super) sees: String,
    /// The numbers of the buckets that the question needs, ascending.
    pub(super) buckets: Vec<u32>,
    /// Those of them that were not read for an earlier question of this run.
    pub(super) read: Vec<u32>,
}

impl Buckets {
    /// Reads what is read before the first question, and loads the question encoder.
    pub(super) fn open(source: &SourceArgs, privacy: &PrivacyArgs) -> Result<Self, CliError> {
        let path = site_of(source, "bucket")?;
        let (probes, decoys) = privacy.buckets();
        let site = BucketSite::open(path, probes, decoys, privacy.key()?)?;
        Ok(Self { encoder: encoder(source, "bucket", site.manifest())?, site, has_noted: false })
    }

    /// Returns the fingerprint of the model.
    pub(super) fn model(&self) -> &str {
        &self.site.manifest().model_fingerprint
    }

    /// Returns the `k` best passages for a question in the buckets that it needs, and what the host may see of it.
    pub(super) fn search(&mut self, question: &Question, k: usize) -> Result<(Vec<Hit>, HostView), CliError> {
        let vector = self.encoder.encode_question(&question.text)?;
        let found = self.site.search(vector.as_slice(), k)?;
        let passages = self.site.manifest().passages;
        if found.hits.len() < k.min(passages) && !self.has_noted {
            self.has_noted = true;
            tracing::warn!(
                "{} of --k {k} passages were found: the {} buckets that were fetched, of {}, hold no more of the \
                 site's {passages} passages; give more --probes (8 at most) or --decoys, or a smaller --k",
                found.hits.len(),
                found.buckets.len(),
                self.site.buckets().files.len(),
            );
        }
        let seen =
            HostView { mode: "bucket", sees: self.site.sees(), buckets: found.buckets, read: found.read };
        Ok((hits(found.hits), seen))
    }
}

/// Returns the path of the site that is searched in this mode.
fn site_of<'a>(source: &'a SourceArgs, mode: &str) -> Result<&'a Path, CliError> {
    match &source.index {
        Location::Dir(path) => Ok(path),
        index => Err(format!(
            "--privacy {mode} searches files, and {index} has none: give --index a folder or dpr-static.json that \
             `dpr index export-static` wrote"
        )
        .into()),
    }
}

fn encoder(source: &SourceArgs, mode: &str, site: &SiteManifest) -> Result<TextEncoder, CliError> {
    let model = source
        .model
        .as_deref()
        .ok_or_else(|| format!("--privacy {mode} needs --model, to encode the questions with"))?;
    let built_by = (site.model_fingerprint.as_str(), site.dim);
    let model = model_of_index(&source.index, built_by, model, ModelDir::open(model)?)?;
    Ok(model.in_precision(source.precision()).question_encoder(source.device())?)
}

fn hits(found: Vec<(Passage, f32)>) -> Vec<Hit> {
    found.into_iter().map(|(passage, score)| Hit::new(passage, score)).collect()
}
