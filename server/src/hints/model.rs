//! Advice on models, encoding and corpora.

use std::error::Error;

use dpr_core::{ConfigError, LoadError, ReadError};
use dpr_data::{ConvertError, DataError};
use dpr_encode::EncodingError;
use dpr_encode::model::ModelError;

pub(super) fn of(error: &(dyn Error + 'static)) -> Option<&'static str> {
    None.or_else(|| error.downcast_ref().and_then(of_model))
        .or_else(|| error.downcast_ref().and_then(of_encoding))
        .or_else(|| error.downcast_ref().and_then(of_reading))
        .or_else(|| error.downcast_ref().and_then(of_data))
        .or_else(|| error.downcast_ref().and_then(of_convert))
}

pub(super) fn within<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref() {
        Some(ConvertError::Data(error)) => Some(error),
        _ => None,
    }
}

fn of_model(error: &ModelError) -> Option<&'static str> {
    Some(match error {
        ModelError::NotAModel(_) => {
            "`dpr import --question DIR` makes one, and `dpr distill` a smaller question encoder of the same vectors"
        }
        ModelError::Pooling { .. } => "--pooling cls or --pooling mean",
        ModelError::Dimensions { .. } => "--project gives both one of the same size",
        ModelError::Lengths { .. } => "--normalize true or --normalize false",
        ModelError::NotMatryoshka { .. } => "dpr import --matryoshka",
        ModelError::Projected { .. } => "leave --project out, or import the model without it",
        ModelError::ProjectedCut { .. } => "leave --dim out, or import the model without --project",
        ModelError::IsCrossEncoder(_) | ModelError::IsReader(_) => "`dpr import --question DIR` makes one",
        ModelError::NotACrossEncoder { .. } => "`dpr import --cross-encoder DIR` makes one",
        ModelError::NotAReader { .. } => "`dpr import --reader DIR` makes one",
        ModelError::NotAnEncoder { what, .. } if what.starts_with("a CrossEncoder") => {
            "import it with --cross-encoder in place of --question"
        }
        ModelError::Encoder {
            source: LoadError::Config(ConfigError::Architecture { class, .. }), ..
        } if class.ends_with("ForSequenceClassification") => {
            "import it with --cross-encoder in place of --question"
        }
        ModelError::Encoder {
            source: LoadError::Config(ConfigError::Architecture { class, .. }), ..
        } if class.ends_with("ForQuestionAnswering") || class.ends_with("Reader") => {
            "import it with --reader in place of --question"
        }
        ModelError::Tokens { .. } => {
            "set it with --max-question-tokens or --max-passage-tokens; of a cross-encoder, of a reader and in `dpr \
             shrink` with --max-tokens"
        }
        ModelError::NotReplaced { .. } => "give another --out",
        ModelError::Exists(_) => "give another --out, or --force to replace it",
        ModelError::StaleExport(_) => "run `dpr export-web` again; for narrower vectors, of the whole model",
        _ => return None,
    })
}

fn of_reading(error: &ReadError) -> Option<&'static str> {
    Some(match error {
        ReadError::Question { .. } => "or import the reader with a greater --max-tokens",
        ReadError::NotFinite { .. } => "try --device cpu, or import the reader again",
        _ => return None,
    })
}

fn of_encoding(error: &EncodingError) -> Option<&'static str> {
    matches!(error, EncodingError::Vector { .. }).then_some("try --device cpu")
}

fn of_data(error: &DataError) -> Option<&'static str> {
    Some(match error {
        DataError::Pipe { .. } => "--from names it",
        DataError::NotQuestions { found, .. } if found.contains("training") => {
            "`dpr data questions --queries FILE --qrels FILE` writes those that it makes"
        }
        _ => return None,
    })
}

fn of_convert(error: &ConvertError) -> Option<&'static str> {
    Some(match error {
        ConvertError::Lost { .. } => "--lossy allows it",
        ConvertError::NoPassages { .. } => "--passages FILE",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use dpr_encode::model::{CrossEncoderDir, ModelDir, ModelError, ReaderDir};

    use crate::hints::hint;

    #[test]
    fn a_directory_that_is_no_model_is_made_by_the_option_of_the_kind_that_is_needed() {
        let advice = |opened: Result<(), ModelError>| hint(&opened.unwrap_err()).unwrap_or_default();
        let nowhere = Path::new("nowhere");
        let encoders = advice(ModelDir::open(nowhere).map(drop));
        assert!(encoders.contains("--question") && encoders.contains("dpr distill"), "{encoders}");
        let reader = advice(ReaderDir::open(nowhere).map(drop));
        assert!(reader.contains("`dpr import --reader DIR` makes one"), "{reader}");
        let reranker = advice(CrossEncoderDir::open(nowhere).map(drop));
        assert!(reranker.contains("`dpr import --cross-encoder DIR` makes one"), "{reranker}");
    }

    #[test]
    fn a_projection_is_left_out_where_one_is_asked_for_and_a_cut_where_that_is() {
        let dir = || PathBuf::from("model");
        let projected = hint(&ModelError::Projected { dir: dir(), has: 768 }).unwrap_or_default();
        assert!(projected.starts_with("leave --project out"), "{projected}");
        let cut = hint(&ModelError::ProjectedCut { dir: dir(), has: 768, dim: 5 }).unwrap_or_default();
        assert_eq!(cut, "leave --dim out, or import the model without --project");
    }
}
