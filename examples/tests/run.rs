//! Runs every example, in one program: four would each link all of Burn.
//!
//! `cargo test --release -p dpr-examples --test run`

#[path = "../live_index.rs"]
mod live_index;
#[path = "../search_your_passages.rs"]
mod search_your_passages;
#[path = "../serve_from_your_axum.rs"]
mod serve_from_your_axum;
#[path = "../train_on_your_questions.rs"]
mod train_on_your_questions;

#[test]
fn live_index_runs() {
    live_index::main().unwrap();
}

#[test]
fn search_your_passages_runs() {
    search_your_passages::main().unwrap();
}

#[test]
fn serve_from_your_axum_runs() {
    serve_from_your_axum::main().unwrap();
}

#[test]
fn train_on_your_questions_runs() {
    train_on_your_questions::main().unwrap();
}
