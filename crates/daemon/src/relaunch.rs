//! The command that starts this program again, for processes that run the code of a run and for
//! commands shown to people.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The command that starts a program again.
#[derive(Clone)]
pub struct Relaunch {
    program: OsString,
    arguments: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    /// The working directory at the start, before the program's own code could change it.
    dir: Option<PathBuf>,
}

/// The environment may contain secrets, so it is not printed.
impl fmt::Debug for Relaunch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (program, arguments) = (&self.program, &self.arguments);
        f.debug_struct("Relaunch")
            .field("program", program)
            .field("arguments", arguments)
            .finish_non_exhaustive()
    }
}

impl Relaunch {
    /// Creates the command for a program without arguments.
    pub fn new(program: impl Into<OsString>) -> Relaunch {
        let dir = std::env::current_dir().ok();
        Relaunch { program: program.into(), arguments: Vec::new(), env: Vec::new(), dir }
    }

    /// Adds arguments.
    #[must_use]
    pub fn with(mut self, arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Relaunch {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Relaunch {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Returns the command as a user would type it in a shell that starts in this directory: with
    /// the program's name from `PATH`, if it has one.
    pub fn typed(&self) -> String {
        let mut words: Vec<&OsStr> =
            [&self.program].into_iter().chain(&self.arguments).map(OsString::as_os_str).collect();
        // A script with an interpreter line, which the system runs by itself.
        if words.get(1).is_some_and(|script| is_executable(Path::new(script))) {
            words.remove(0);
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let program = shorter(Path::new(words.remove(0)), &path);
        let words = std::iter::once(&*program).chain(words);
        words
            .map(|word| shell_word(&word.to_string_lossy()).into_owned())
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// Returns the process to be started.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).envs(self.env.iter().map(|(name, value)| (name, value)));
        if let Some(dir) = &self.dir {
            command.current_dir(dir);
        }
        command
    }
}

fn is_executable(file: &Path) -> bool {
    let has_bit =
        |meta: std::fs::Metadata| meta.is_file() && meta.permissions().mode() & 0o111 != 0;
    file.components().count() > 1 && file.metadata().is_ok_and(has_bit)
}

/// Returns the shortest name by which a shell finds a program. Links are not followed: the Python
/// of a virtual environment is one.
fn shorter(program: &Path, path: &OsStr) -> OsString {
    let Some(name) = program.file_name() else { return program.into() };
    let mut found = std::env::split_paths(path).map(|dir| dir.join(name));
    if found.find(|file| is_executable(file)).is_some_and(|file| file == program) {
        return name.to_owned();
    }
    let here = std::env::current_dir().ok();
    match here.as_ref().and_then(|here| program.strip_prefix(here).ok()) {
        // A name without a directory is looked up in `PATH` only.
        Some(below) if below.components().count() == 1 => Path::new(".").join(below).into(),
        Some(below) => below.into(),
        None => program.into(),
    }
}

/// Quotes a word for a shell.
pub fn shell_word(word: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-~+:,@%".contains(c);
    match !word.is_empty() && !word.starts_with('~') && word.chars().all(is_plain) {
        true => word.into(),
        false => format!("'{}'", word.replace('\'', r"'\''")).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_the_name_that_a_shell_finds() {
        let dir = std::env::temp_dir().join(format!("tiffany-typed-{}", std::process::id()));
        let (first, second) = (dir.join("first"), dir.join("second"));
        for place in [&first, &second] {
            std::fs::create_dir_all(place).unwrap();
            std::fs::write(place.join("program"), "").unwrap();
            let mode = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(place.join("program"), mode).unwrap();
        }
        let path = std::env::join_paths([&first, &second]).unwrap();
        assert_eq!(shorter(&first.join("program"), &path), "program");
        // Another program comes first under this name.
        assert_eq!(shorter(&second.join("program"), &path), *second.join("program"));
        let script = Relaunch::new("/usr/bin/python3").with([second.join("program")]);
        assert_eq!(script.typed(), second.join("program").display().to_string());
        let module = Relaunch::new("/nowhere/python").with(["-m", "tiffany"]);
        assert_eq!(module.typed(), "/nowhere/python -m tiffany");
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_word_is_quoted_where_a_shell_would_take_it_apart() {
        for (word, expected) in [
            ("/var/log-1", "/var/log-1"),
            ("only half", "'only half'"),
            ("it's", r"'it'\''s'"),
            ("", "''"),
            ("a|b", "'a|b'"),
            ("summer~4", "summer~4"),
            ("~", "'~'"),
        ] {
            assert_eq!(shell_word(word), expected);
        }
    }
}
