//! `config`: prints an example of a configuration, and checks configurations.

use std::path::PathBuf;

use crate::args::serve as args;
use crate::{GuestError, Invocation};
use clap::Command;
use serde_json::json;

use super::print;
use tiffany_daemon::config::{Config, EXAMPLE};
use tiffany_daemon::tls::Tls;

pub(crate) const NAME: &str = "config";

pub(crate) fn command() -> Command {
    args::config(NAME)
}

pub(crate) fn run(asked: &Invocation<'_>) -> Result<u8, GuestError> {
    let Some(("check", matches)) = asked.matches.subcommand() else {
        return print::write(EXAMPLE).map(|()| 0);
    };
    let file =
        matches.get_one::<PathBuf>("file").or_else(|| super::typed_config_file(asked.matches));
    let Some(file) = file else {
        return Err(GuestError {
            code: "TFY0067".into(),
            text: "there is no file to check; name it after `check`, or with `--config`".into(),
            exit: Some(2),
        });
    };
    let config = Config::read(file)?;
    if let Some(files) = config.tls() {
        Tls::new(files)?;
    }
    match asked.json {
        true => print::json(&json!({ "file": file.display().to_string(), "good": true }))?,
        false => print::line_of(&format!("{} is good", file.display()))?,
    }
    Ok(0)
}
