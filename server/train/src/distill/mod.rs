//! Distillation: a small question encoder learns to give a question the vector that a large one, its teacher, gives it.
//! Passages keep the teacher's vectors and indexes stay as they are; the page downloads the small encoder.
//!
//! The loss of a question is the squared distance of the student's vector `s` from the teacher's `t`, over the mean
//! `|t|²`; for vectors of length 1 that is twice one minus the cosine. With vectors of passages at hand there is a
//! second part: the divergence of the student's distribution over the teacher's best passages of all questions in the
//! batch from the teacher's own (softmax of the inner products over a temperature), so that the errors that remain in
//! the student are those that do not change a ranking.

mod config;
mod data;
mod loss;
mod project;
mod task;
mod taught;

pub use config::{DistillConfig, DistillData, DistillModel, DistillObjective};
pub use data::DistillPrepared;
pub use task::distill;
