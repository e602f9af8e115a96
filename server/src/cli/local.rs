//! `dpr search --privacy local`: a static site, searched as a page does.

use dpr_core::TextEncoder;
use dpr_data::Question;
use dpr_encode::model::ModelDir;
use dpr_index::search::Hit;
use dpr_private::site::Site;

use super::CliError;
use super::model_of_index::model_of_index;
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
        let Location::Dir(path) = &source.index else {
            let index = &source.index;
            return Err(format!(
                "--privacy local searches files, and {index} has none: give --index a folder or dpr-static.json that \
                 `dpr index export-static` wrote"
            )
            .into());
        };
        let model =
            source.model.as_deref().ok_or("--privacy local needs --model, to encode the questions with")?;
        let site = Site::open(path)?;
        let built_by = (site.manifest().model_fingerprint.as_str(), site.manifest().dim);
        let model = model_of_index(&source.index, built_by, model, ModelDir::open(model)?)?;
        Ok(Self { encoder: model.in_precision(source.precision()).question_encoder(source.device())?, site })
    }

    /// Returns the fingerprint of the model.
    pub(super) fn model(&self) -> &str {
        &self.site.manifest().model_fingerprint
    }

    /// Returns the `k` best passages for a question, best first.
    pub(super) fn search(&self, question: &Question, k: usize) -> Result<Vec<Hit>, CliError> {
        let vector = self.encoder.encode_question(&question.text)?;
        let found = self.site.search(vector.as_slice(), k)?;
        Ok(found.into_iter().map(|(passage, score)| Hit::new(passage, score)).collect())
    }
}
