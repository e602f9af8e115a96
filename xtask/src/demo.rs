//! `cargo xtask demo`: from a fresh clone to a search page.

use std::os::unix::process::CommandExt;

use crate::failure::{Failure, Outcome};
use crate::paths::{DEMO_INDEX, DEMO_MODEL, PAGE, dpr};
use crate::process::command;
use crate::{demo_data, npm, setup};

const DEFAULT_ADDRESS: &str = "127.0.0.1:7878";

/// Sets up, builds what has changed, and becomes the server, which prints its address once it answers.
///
/// It takes the place of this process, so that Ctrl-C and signals reach it and nothing is left behind.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let address = match arguments {
        [] => DEFAULT_ADDRESS,
        [flag, address] if flag == "--listen" => address,
        _ => return Err(Failure::new("demo takes only --listen ADDRESS:PORT")),
    };
    setup::run(setup::Scope::Demo)?;
    demo_data::build()?;
    npm::build()?;
    println!("\ndemo: open the address below and type \"who won super bowl 50\"; Ctrl-C ends it\n");
    let serve = ["serve", "--model", DEMO_MODEL, "--index", DEMO_INDEX, "--web", PAGE, "--listen", address];
    let error = command(dpr(), &serve).exec();
    Err(Failure::new(format!("cannot start `dpr serve`: {error}")))
}
