//! `token`: manages access over the network.

use std::time::Duration;

use crate::args::serve as args;
use crate::{GuestError, Invocation};
use clap::{ArgMatches, Command};
use serde_json::json;
use tiffany::control::user_name;
use tiffany::wal::Stamp;

use super::print;
use tiffany_daemon::audit::{AUDIT, Audit, Entry};
use tiffany_daemon::auth::{AuthError, Kept, Role, Tokens};
use tiffany_daemon::private;

pub(crate) const NAME: &str = "token";

pub(crate) fn command() -> Command {
    args::token(NAME)
}

pub(crate) fn run(asked: &Invocation<'_>) -> Result<u8, GuestError> {
    let tokens = Tokens::at(&asked.dir);
    let done = match asked.matches.subcommand() {
        Some(("add", matches)) => add(asked, &tokens, matches),
        Some(("rm", matches)) => {
            let name = text(matches, "name");
            let gone = written_down(asked, "token_rm", name, || tokens.remove(name))?;
            match asked.json {
                true => print::json(&json!({ "removed": shown(&gone) })),
                false => print::line_of(&format!("removed the token of {}", gone.name)),
            }
        }
        _ => list(asked, &tokens.all()?),
    };
    done.map(|()| 0)
}

fn add(asked: &Invocation<'_>, tokens: &Tokens, matches: &ArgMatches) -> Result<(), GuestError> {
    let role = matches.get_one::<Role>("role").copied().unwrap_or(Role::Viewer);
    let good_for = matches.get_one::<Duration>("expires").copied();
    let name = text(matches, "name");
    let token = written_down(asked, "token_add", name, || tokens.add(name, role, good_for))?;
    match asked.json {
        true => print::json(&json!({ "name": name, "role": role, "token": token.reveal() })),
        false => {
            // Standard output has only the token, so that it can be piped.
            eprintln!("a token of {name}, who is {role}; it is not shown again:");
            print::line_of(token.reveal())
        }
    }
}

/// Changes tokens as everything else is changed: with a line in the audit file.
fn written_down<T>(
    asked: &Invocation<'_>,
    did: &str,
    name: &str,
    change: impl FnOnce() -> Result<T, AuthError>,
) -> Result<T, AuthError> {
    let failed = |error: std::io::Error| AuthError::Audit {
        file: asked.dir.join(AUDIT),
        why: error.to_string(),
    };
    private::make_dir(&asked.dir).map_err(failed)?;
    let audit = Audit::at(&asked.dir)?;
    let uid = rustix::process::getuid().as_raw();
    let intent = audit.begin(&Entry {
        who: user_name(uid),
        role: Role::Admin.to_string(),
        by: format!("uid:{uid}"),
        from: "command".into(),
        did: did.into(),
        to: Some(name.into()),
        ..Entry::default()
    })?;
    let changed = change();
    let outcome = changed.as_ref().map_or_else(AuthError::code, |_| "ok");
    // A new token is printed even if the audit line fails, since it cannot be printed later.
    if let Err(error) = audit.finish(intent, outcome).and_then(|()| audit.sync()) {
        eprintln!("warning[{}]: {error}", error.code());
    }
    changed
}

fn list(asked: &Invocation<'_>, all: &[Kept]) -> Result<(), GuestError> {
    if asked.json {
        return all.iter().try_for_each(|kept| print::json(&shown(kept)));
    }
    if all.is_empty() {
        eprintln!("there are no tokens; `tiffany token add NAME --role ROLE` makes one");
        return Ok(());
    }
    let row = |kept: &Kept| {
        let until = kept.expires.map_or_else(|| "never".into(), date);
        vec![kept.name.clone(), kept.role.to_string(), kept.id.clone(), date(kept.created), until]
    };
    let rows: Vec<Vec<String>> = all.iter().map(row).collect();
    print::table(&["NAME", "ROLE", "TOKEN", "MADE", "EXPIRES"], &rows)
}

fn shown(kept: &Kept) -> serde_json::Value {
    json!({
        "name": kept.name,
        "role": kept.role,
        "token": kept.id,
        "created": date(kept.created),
        "expires": kept.expires.map(date),
    })
}

/// Formats a time in RFC 3339, to the second.
fn date(seconds: u64) -> String {
    let stamp = Stamp::from_unix_nanos(seconds.saturating_mul(1_000_000_000));
    format!("{}Z", stamp.as_str().get(..19).unwrap_or_default())
}

fn text<'a>(matches: &'a ArgMatches, name: &str) -> &'a str {
    matches.get_one::<String>(name).map_or("", String::as_str)
}
