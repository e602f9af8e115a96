//! The reference of the command line: the help of each command as Markdown, `docs/reference/cli.md`.

use std::fmt::Write as _;

use clap::{Arg, Command};

/// Columns that help is wrapped at.
const WIDTH: usize = 100;

/// Arguments that every command has: the page describes them once, with `dpr` itself.
const COMMON: [&str; 3] = ["help", "log_format", "version"];

const HEAD: &str = "\
# The command line

Printed by `dpr --print-reference`. `dpr COMMAND --help` prints a part of it, and `-h` a summary. Every command also
takes `--log-format`, `--help` and `--version`. Where a flag has an environment variable, the flag wins.

| exit status | meaning |
|---|---|
| 0 | done; also where nobody reads the results to their end, and for a server that was told to stop |
| 1 | an error, told in a line on standard error; also long work that the first Ctrl-C or SIGTERM stopped |
| 2 | a command line that is not understood |
| 74 | a mapped file of an index was cut off, or its disk failed: run `dpr index verify` before another start |
| 130 | ended at once by Ctrl-C, long work by the second one: the first one ends it cleanly |
";

/// Returns the page: the help of `dpr` and of each of its commands, in the order of the help.
pub(super) fn markdown(dpr: Command) -> String {
    let mut dpr = dpr.term_width(WIDTH);
    dpr.build();
    let mut page = HEAD.to_owned();
    add(&mut page, &dpr, "dpr");
    page
}

/// Adds a command's section, then those of its subcommands. `name` is the command as it is typed.
fn add(page: &mut String, command: &Command, name: &str) {
    let is_common = |arg: &Arg| COMMON.contains(&arg.get_id().as_str());
    let is_root = !name.contains(' ');
    // Values of the environment are those of the machine that prints.
    let shown = command
        .clone()
        .mut_args(|arg| arg.hide_env_values(true))
        .mut_args(|arg| if !is_root && is_common(&arg) { arg.hide(true) } else { arg });
    let help = shown.clone().render_long_help().to_string();
    let lines: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
    // Writing to a string does not fail.
    let _ = write!(page, "\n## `{name}`\n\n```text\n{}\n```\n", lines.join("\n"));
    let subcommands = command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help");
    for subcommand in subcommands {
        add(page, subcommand, &format!("{name} {}", subcommand.get_name()));
    }
}
