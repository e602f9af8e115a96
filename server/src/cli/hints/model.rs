//! Advice on models, encoding and corpora.

use std::error::Error;

use dpr_data::ConvertError;
use dpr_data::DataError;
use dpr_encode::EncodingError;
use dpr_encode::model::ModelError;

pub(super) fn of(error: &(dyn Error + 'static)) -> Option<&'static str> {
    None.or_else(|| error.downcast_ref().and_then(of_model))
        .or_else(|| error.downcast_ref().and_then(of_encoding))
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
        ModelError::NotAModel(_) => "make one with `dpr import`",
        ModelError::Pooling { .. } => "--pooling cls or --pooling mean",
        ModelError::Dimensions { .. } => "--project gives both one of the same size",
        ModelError::Projected { .. } => "leave --project out",
        ModelError::Tokens { .. } => "set it with --max-question-tokens or --max-passage-tokens",
        ModelError::Exists(_) => "give another --out, or --force to replace it",
        ModelError::StaleExport(_) => "run `dpr export-web` again",
        _ => return None,
    })
}

fn of_encoding(error: &EncodingError) -> Option<&'static str> {
    matches!(error, EncodingError::Vector { .. }).then_some("try --device cpu")
}

fn of_data(error: &DataError) -> Option<&'static str> {
    matches!(error, DataError::Pipe { .. }).then_some("--from names it")
}

fn of_convert(error: &ConvertError) -> Option<&'static str> {
    Some(match error {
        ConvertError::Lost { .. } => "--lossy allows it",
        ConvertError::NoPassages { .. } => "--passages FILE",
        _ => return None,
    })
}
