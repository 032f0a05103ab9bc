//! `audit`: prints what was changed and by whom, and whether the audit file is intact.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::path::Path;

use crate::args::serve as args;
use crate::{GuestError, Invocation};
use clap::Command;
use serde_json::json;

use super::print;
use tiffany_daemon::audit::{AUDIT, BEGUN, Written, joined, read};
use tiffany_daemon::private;

pub(crate) const NAME: &str = "audit";

/// The exit code if a line was changed or removed.
const DAMAGED: u8 = 1;

pub(crate) fn command() -> Command {
    args::audit(NAME)
}

pub(crate) fn run(asked: &Invocation<'_>) -> Result<u8, GuestError> {
    let file = asked.dir.join(AUDIT);
    let text = match contents(&file) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => {
            let why = private::why_not_open(&error);
            return Err(tiffany_daemon::auth::AuthError::Audit { file, why }.into());
        }
    };
    let who = asked.matches.get_one::<String>("who");
    let (mut lines, mut damage) = (Vec::new(), Vec::new());
    for line in read(&text) {
        match line {
            Ok(line) => lines.push(line),
            Err(why) => damage.push(why),
        }
    }
    let mut rows = joined(lines);
    rows.retain(|row| who.is_none_or(|who| row.entry.who == *who));
    match asked.json {
        true => {
            rows.iter().try_for_each(print::json)?;
            damage.iter().try_for_each(|why| print::json(&json!({ "damage": why })))?;
        }
        false => {
            let rows: Vec<Vec<String>> = rows.iter().map(row).collect();
            print::table(&["WHEN", "WHO", "ROLE", "DID", "TO", "OUTCOME", "FROM"], &rows)?;
            damage.iter().for_each(|why| eprintln!("damage: {why}"));
        }
    }
    Ok(if damage.is_empty() { 0 } else { DAMAGED })
}

fn contents(file: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    private::open(OpenOptions::new().read(true), file)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn row(line: &Written) -> Vec<String> {
    let entry = line.entry.clone();
    let when = format!("{}Z", line.ts.get(..19).unwrap_or(&line.ts));
    let to = entry.to.unwrap_or_default();
    let outcome = match entry.outcome.as_str() {
        BEGUN => "begun, no outcome".into(),
        _ => entry.outcome,
    };
    vec![when, entry.who, entry.role, entry.did, to, outcome, entry.from]
}
