//! `dpr export-web`

use std::path::PathBuf;

use super::{CliError, output};
use dpr_encode::model::{ModelDir, export_web};

/// Arguments of `dpr export-web`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  dpr export-web --model model/")]
pub struct Args {
    /// Model directory, as `dpr import` writes it
    #[arg(long, value_name = "MODEL")]
    model: PathBuf,
    /// Print what was written as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `dpr export-web`.
///
/// # Errors
/// What [`export_web`] says.
pub fn run(args: Args) -> Result<(), CliError> {
    let report = export_web(&ModelDir::open(&args.model)?)?;
    if args.json {
        return output::json(&report.manifest);
    }
    for (dtype, file) in &report.manifest.weights {
        output::line(format_args!(
            "{dtype:>4}  {:>6.1} MB  {}",
            file.entry.bytes as f64 / 1e6,
            args.model.join(&file.path).display()
        ))?;
    }
    Ok(())
}
