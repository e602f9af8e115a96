//! The tests of `dpr` as a whole: command line, indexes, training, evaluation, engines. One binary, since each one
//! would link everything.

mod answer;
#[cfg(unix)]
mod compaction_killed;
mod data_files;
mod data_formats;
mod data_ict;
mod data_split;
mod deploy;
mod distill;
#[cfg(unix)]
mod docs_commands;
mod encode;
mod encrypted;
mod engines;
mod eval_cli;
mod eval_reference;
mod families;
mod filtered_recall;
#[cfg(unix)]
mod index_cli;
#[cfg(unix)]
mod index_crash;
mod index_dir;
#[cfg(unix)]
mod index_keep;
mod index_live;
mod index_table;
mod model;
mod narrower;
mod privacy;
mod retrieval_cli;
#[cfg(unix)]
mod rolling_restart;
mod search;
#[cfg(unix)]
mod serve_keys;
#[cfg(unix)]
mod serve_live;
mod sparse;
mod support;
mod train_head;
mod train_pairs;
mod train_rounds;
mod train_run;
mod train_sampling;
mod train_start;
mod train_step;
mod train_teacher;
mod vectors_dir;
