//! The commands in groups, as `--help` lists them.

use clap::Command;

use super::GLOBAL;

/// The groups and their commands, in the order of the help.
pub(crate) const GROUPS: [(&str, &[&str]); 7] = [
    ("Runs", &["run", "submit", "resume", "ls", "show", "status"]),
    ("Look", &["log", "watch", "diff"]),
    ("Steer", &["send", "settle", "query", "cancel", "hold", "approve", "doubt"]),
    ("Time travel", &["replay", "fork"]),
    ("Keep", &["rm", "backup"]),
    ("Serve", &["serve", "token", "audit", "config", "demo"]),
    ("Admin", &["doctor", "completions"]),
];

/// The width of the column with the names.
const NAME_WIDTH: usize = 13;

/// A command whose help lists its subcommands in groups.
pub(crate) fn grouped(command: Command) -> Command {
    let mut list = String::new();
    for (group, names) in GROUPS {
        list.push_str(&format!("{group}:\n"));
        for name in names {
            // `run` is there only with a language that has programs in files.
            let Some(about) = command.find_subcommand(name).map(|one| one.get_about()) else {
                continue;
            };
            let about = about.map(ToString::to_string).unwrap_or_default();
            list.push_str(&format!("  {name:NAME_WIDTH$}{about}\n"));
        }
        list.push('\n');
    }
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}{GLOBAL}:\n{{options}}{{after-help}}"
    );
    command.help_template(template)
}

#[cfg(test)]
mod tests {
    use super::GROUPS;
    use crate::args::Args;
    use crate::daemon_commands;
    use clap::CommandFactory;

    #[test]
    fn every_command_is_in_one_group() {
        let command = Args::command().subcommands(daemon_commands::commands());
        let grouped: Vec<&str> =
            GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        for command in command.get_subcommands() {
            let name = command.get_name();
            assert_eq!(grouped.iter().filter(|one| **one == name).count(), 1, "{name}");
        }
        assert_eq!(grouped.len(), command.get_subcommands().count() + 1, "and `run`");
    }

    #[test]
    fn the_arguments_of_all_commands_make_sense() {
        Args::command().subcommands(daemon_commands::commands()).debug_assert();
    }
}
