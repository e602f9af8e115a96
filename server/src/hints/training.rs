//! Advice on training and on the mining of its data.

use std::error::Error;

use dpr_train::TrainError;
use dpr_train::mine::MineError;

pub(super) fn of(error: &(dyn Error + 'static)) -> Option<String> {
    if let Some(MineError::NoVectors) = error.downcast_ref() {
        return Some("build it with `dpr index --vectors VECTORS --sparse english`".to_owned());
    }
    of_training(error.downcast_ref()?)
}

pub(super) fn within<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match (error.downcast_ref(), error.downcast_ref()) {
        (Some(TrainError::Data(error)), _) | (_, Some(MineError::Data(error))) => Some(error),
        (Some(TrainError::Model(error)), _) => Some(error),
        (Some(TrainError::Encoding(error)), _) => Some(error),
        (Some(TrainError::Read(error)), _) => Some(error),
        (Some(TrainError::File(error)), _) => Some(error),
        _ => None,
    }
}

fn of_training(error: &TrainError) -> Option<String> {
    let advice = match error {
        TrainError::StudentDim { expected, .. } => return Some(format!("`dpr import --project {expected}`")),
        TrainError::OtherSpace { teacher, .. } => {
            return Some(format!("`dpr encode --model {}`", teacher.display()));
        }
        TrainError::Setting { setting: "model.start" | "model.teacher", got, .. } if got == "not given" => {
            "make one with `dpr import`"
        }
        TrainError::Setting { setting: "objective.matryoshka", expected, .. }
            if expected.contains("projection") =>
        {
            "`dpr import` without --project"
        }
        TrainError::Setting { setting: "data.train", .. } => "make one with `dpr data mine`",
        TrainError::Item { what, .. } if what.ends_with("negatives") => {
            "`dpr data mine` finds hard ones, with --random-negatives also random ones"
        }
        TrainError::Exists { .. } => "--resume goes on with it; --out names another directory",
        TrainError::OtherRun { .. } => {
            "go on with the command that began it, of the version that did, or begin anew in another --out"
        }
        TrainError::NothingToResume { .. } => "leave --resume out to begin one",
        TrainError::InUse { .. } | TrainError::OtherConfig { .. } | TrainError::OtherOrigin { .. } => {
            "--out names another directory"
        }
        TrainError::WriteCheckpoint { .. } | TrainError::Interrupted { .. } => "--resume goes on from there",
        _ => return None,
    };
    Some(advice.to_owned())
}
