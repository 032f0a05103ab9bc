//! `token`: who may come in over the network.

use std::time::Duration;

use crate::{GuestError, Invocation};
use clap::{Arg, ArgMatches, Command, value_parser};
use serde_json::json;
use tiffany::control::user_name;
use tiffany::units;
use tiffany::wal::Stamp;

use super::print;
use tiffany_daemon::audit::{AUDIT, Audit, Entry};
use tiffany_daemon::auth::{AuthError, Kept, Role, Tokens};
use tiffany_daemon::private;

pub(crate) const NAME: &str = "token";

pub(crate) fn command() -> Command {
    let name = || Arg::new("name").value_name("NAME").required(true);
    let roles = "What its owner may do: viewer looks, operator starts and steers runs, admin also removes them.";
    Command::new(NAME)
        .about("Make, list and remove the tokens by which the daemon knows who asks")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            Command::new("add")
                .about("Make a token for somebody, and print it: it can be had now and never again")
                .arg(name().help("Whose it is. What they do is written down under this name."))
                .arg(
                    Arg::new("role")
                        .long("role")
                        .value_name("ROLE")
                        .required(true)
                        .value_parser(value_parser!(Role))
                        .help(roles),
                )
                .arg(
                    Arg::new("expires")
                        .long("expires")
                        .value_name("TIME")
                        .value_parser(units::time)
                        .help("How long it is good for: 90s, 15m, 12h, 30d or 2w. Without it, until it is removed."),
                ),
        )
        .subcommand(Command::new("ls").about("List the tokens: whose they are, not what they are"))
        .subcommand(
            Command::new("rm")
                .about("Remove a token. Nobody gets in with it from then on")
                .arg(name().help("Whose it is, or the token's own name, as `ls` shows it.")),
        )
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
            // The token alone is on standard output, to be taken from there.
            eprintln!("a token of {name}, who is {role}; it is not shown again:");
            print::line_of(token.reveal())
        }
    }
}

/// Who may come in is changed as everything else is: not without a line in the audit.
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
    // A token that was made is shown, whatever becomes of the line: it cannot be shown later.
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

/// A moment in RFC 3339, to the second.
fn date(seconds: u64) -> String {
    let stamp = Stamp::from_unix_nanos(seconds.saturating_mul(1_000_000_000));
    format!("{}Z", stamp.as_str().get(..19).unwrap_or_default())
}

fn text<'a>(matches: &'a ArgMatches, name: &str) -> &'a str {
    matches.get_one::<String>(name).map_or("", String::as_str)
}
