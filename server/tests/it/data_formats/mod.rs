//! The field's formats beyond passages and plain questions: question tables, training data, judgements, runs and
//! results, written, read back, converted, and refused when they are wrong.

mod convert;
mod questions;
mod rankings;
mod training;

use dpr_data::TrainingContext;

fn context(title: &str, text: &str, score: Option<f32>, id: Option<&str>) -> TrainingContext {
    TrainingContext { title: title.into(), text: text.into(), score, passage_id: id.map(str::to_owned) }
}
