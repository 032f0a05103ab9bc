//! Commands of earlier versions, and their replacements.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::error::{Shown, exit};

/// The old command, and the new one.
pub(crate) const RETIRED: [(&str, &str); 21] = [
    ("allow", "fork FORK --allow NAME…"),
    ("approvals", "approve"),
    ("blob", "show --blob HASH"),
    ("capture", "replay RUN --capture DIR"),
    ("check", "replay --all"),
    ("compact", "rm --compact"),
    ("effects", "show RUN --steps"),
    ("events", "watch --events"),
    ("export", "log RUN --format FORMAT"),
    ("inspect", "resume --dry-run"),
    ("metrics", "status --metrics"),
    ("prune", "rm"),
    ("ps", "ls --active"),
    ("reject", "approve RUN --reject"),
    ("release", "hold RUN --release"),
    ("restore", "backup restore"),
    ("step", "replay RUN --step"),
    ("stuck", "ls --stuck"),
    ("top", "watch"),
    ("try", "replay RUN --ahead"),
    ("verify", "doctor --verify"),
];

/// Returns the answer to an old spelling; `None` for any other error.
pub(crate) fn answer(error: &clap::Error, arguments: &[OsString]) -> Option<Shown> {
    let has = |word: &str| arguments.iter().any(|argument| argument == word);
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let typed = text(ContextKind::InvalidSubcommand)?;
            if has("backup") && has("--to") {
                return Some(backup());
            }
            let (old, new) = RETIRED.iter().find(|(old, _)| *old == typed)?;
            let command = new.split(' ').next().unwrap_or(new);
            let is_now = match *old {
                "approvals" => "`approve` without arguments".to_owned(),
                "top" => "`watch` without a run".to_owned(),
                "prune" => "`rm` with rules: `rm --older-than 30d`".to_owned(),
                "restore" => "`backup restore`, and `restore --check` is `backup check`".to_owned(),
                _ => format!("`{new}`"),
            };
            Some(shown(format!("`{old}` is now {is_now}"), command))
        }
        ErrorKind::UnknownArgument if has("backup") => {
            (text(ContextKind::InvalidArg) == Some("--to")).then(backup)
        }
        _ => None,
    }
}

/// Before, `backup` had no subcommands.
fn backup() -> Shown {
    shown("`backup --to DEST` is now `backup create DEST`".into(), "backup create")
}

fn shown(message: String, command: &str) -> Shown {
    let next = format!("`{command} --help` shows its options");
    Shown { code: "TFY0067".into(), message, next, exit: exit::USAGE }
}
