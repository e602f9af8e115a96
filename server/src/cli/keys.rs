//! `dpr keys`: API keys for `dpr serve --keys`.

use dpr_serve::{NewKey, Scope, is_key_name};

use super::{CliError, output};

/// Options of `dpr keys`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  dpr keys new --name website --scope search
  dpr keys new --name importer --scope search,write

A key is printed once and kept nowhere; the file of dpr serve --keys holds its SHA-256 alone. To replace a key, add another \
one to the file, give it to its user, and remove the old one: servers read the file again when it changes.")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Make a key of 256 random bits and print it, with the lines for the file of keys
    New(NewArgs),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  dpr keys new --name website --scope search")]
struct NewArgs {
    /// What logs call the key: letters, digits, dots, hyphens and underscores
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: String,
    /// What it opens: search, write, admin; several with commas
    #[arg(long, value_name = "SCOPE", required = true, value_delimiter = ',')]
    scope: Vec<Scope>,
}

fn name(text: &str) -> Result<String, String> {
    match is_key_name(text) {
        true => Ok(text.to_owned()),
        false => Err("it must be 1 to 64 letters, digits, dots, hyphens and underscores".into()),
    }
}

/// Runs `dpr keys`.
///
/// # Errors
/// When the system gives no random numbers.
pub fn run(args: Args) -> Result<(), CliError> {
    let Command::New(NewArgs { name, mut scope }) = args.command;
    scope.sort_unstable();
    scope.dedup();
    let key = NewKey::generate()?;
    output::print(&format!(
        "The key, shown this once; clients send it as `authorization: Bearer KEY` or `x-api-key: KEY`:\n\n  {}\n\nAdd to \
         the file of `dpr serve --keys`:\n\n{}",
        key.secret(),
        key.entry(&name, &scope)
    ))
}
