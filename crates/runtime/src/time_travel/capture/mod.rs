//! Runs as fixtures of tests: the redacted log of a run in one file, against which the program that
//! wrote it is tested. It knows nothing of the tests around it.

pub(crate) mod error;
pub(crate) mod fixture;
pub(crate) mod inside;
pub(crate) mod left;
pub(crate) mod placeholder;
pub(crate) mod redaction;

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use tiffany_kernel::{ErrorKind, TaskError, Uuid};
use tiffany_records::record::{Record, owned};

use crate::runtime::Runtime;
use crate::runtime::builder::Builder;
pub use crate::time_travel::capture::error::CaptureError;
pub(crate) use crate::time_travel::capture::fixture::Fixture;
use crate::time_travel::capture::left::Left;
pub use crate::time_travel::capture::redaction::Redaction;
use tiffany_log::{LogError, RealDisk, View};
use tiffany_records::RunError;

/// Replays the run in a file with the functions of this program, and compares the two. No effect
/// begins, and nothing is written. The error says where they diverge, or that the outcome is
/// another one. An unfinished run is compared as far as its log goes.
///
/// The file is one that [`capture`] made, or the run file of a finished run in a log directory.
///
/// ```
/// # use tiffany::durable::step;
/// # use tiffany::testing::{Over, Redaction, capture, replay_log};
/// # use tiffany::{Runtime, TaskError};
/// # let dir = std::env::temp_dir().join(format!("tiffany-capture-{}", std::process::id()));
/// async fn order(item: String) -> Result<u32, TaskError> {
///     step("price", || Ok::<u32, String>(42)).input(&item).await
/// }
///
/// let program = || Runtime::builder().register("order", order);
/// let mut runtime = program().log_dir(&dir).build()?;
/// let run = runtime.submit::<u32>("order", "order-1", &"tea")?;
/// runtime.wait_for(&run)?;
///
/// let file = dir.join("order-1.wal");
/// let captured = capture(program(), &dir, run.uuid(), &Redaction::new().field("/input")?)?;
/// captured.write(&file, Over::Nothing)?;
/// replay_log(program(), &file)?;
///
/// // Somebody changes the program.
/// let changed = Runtime::builder().register("order", async |item: String| order(item + "!").await);
/// let error = replay_log(changed, &file).unwrap_err();
/// assert_eq!(error.code(), "TFY0036");
/// # drop(runtime);
/// # std::fs::remove_dir_all(dir).unwrap();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn replay_log(program: Builder, file: &Path) -> Result<(), RunError> {
    let fixture = Fixture::read(file)?;
    let replayed = fixture.replay(&mut program.without_log().build()?)?;
    match replayed.verdict.into_error() {
        Some(error) => Err(RunError::Failed(error)),
        None => Ok(()),
    }
}

/// Captures a run of a directory, which may be in use, as the fixture of a test: see
/// [`replay_log`]. Values that the rules find are replaced. Then the run is replayed, so that the
/// fixture is certain to match this program.
pub fn capture(
    program: Builder,
    dir: &Path,
    run: Uuid,
    redaction: &Redaction,
) -> Result<Captured, CaptureError> {
    let view = View::open(Arc::new(RealDisk), dir)?;
    let mut room = program.without_log().build()?;
    capture_in(&mut room, &view, run, redaction)
}

/// Captures a run in a runtime without a log.
pub fn capture_in(
    room: &mut Runtime,
    view: &View,
    run: Uuid,
    redaction: &Redaction,
) -> Result<Captured, CaptureError> {
    let fixture = Fixture::of_run(view, run)?;
    if let Some(why) = parting(&fixture, room)?.map(|(guess, _)| guess) {
        return Err(CaptureError::NotTheSame { run, why });
    }
    if redaction.is_empty() {
        return Ok(Captured { fixture: fixture.finished(redaction), redacted: 0 });
    }
    let found = redaction.find(fixture.records())?;
    let redacted = fixture.redacted(&found)?;
    if let Some((_, parting)) = parting(&redacted, room)? {
        return Err(depends(&fixture, room, redaction, parting)?);
    }
    if let [first, others @ ..] = &left::left(&found, redacted.records())[..] {
        return Err(is_left(&fixture, redaction, first, others));
    }
    Ok(Captured { fixture: redacted.finished(redaction), redacted: found.values().len() })
}

/// The error that the run changes if values are redacted. It names the rule that causes this by
/// itself.
fn depends(
    fixture: &Fixture,
    room: &mut Runtime,
    redaction: &Redaction,
    all: String,
) -> Result<CaptureError, CaptureError> {
    let rules: Vec<&str> = redaction.rules().collect();
    let (mut rule, mut parts) = (rules.join("`, `"), all);
    for alone in redaction.one_by_one().filter(|_| rules.len() > 1) {
        let redacted = fixture.redacted(&alone.find(fixture.records())?)?;
        if let Some((_, parting)) = parting(&redacted, room)? {
            (rule, parts) = (alone.rules().collect(), parting);
            break;
        }
    }
    let why = format!("the run does more than pass the value on: without it {parts}");
    let next = "redact less, or keep the fixture where only authorized people can read it";
    Ok(CaptureError::redaction(&rule, &why, next))
}

/// The error that a value is left, with the rule that finds it.
fn is_left(
    fixture: &Fixture,
    redaction: &Redaction,
    first: &Left<'_>,
    others: &[Left<'_>],
) -> CaptureError {
    let means_it = |alone: &Redaction| {
        let found = alone.find(fixture.records());
        let secret = (first.value.kind, first.value.text.clone());
        found.is_ok_and(|found| found.values().contains_key(&secret))
    };
    let mut alone = redaction.one_by_one();
    let rule: String = alone.find(means_it).map_or(String::new(), |rule| rule.rules().collect());
    let mut why = format!("record {} still has it at `{}`", first.record, first.place);
    const MAX_OTHERS: usize = 4;
    for Left { record, place, .. } in others.iter().take(MAX_OTHERS) {
        why.push_str(&format!(", record {record} has such a value at `{place}`"));
    }
    if let more @ 1.. = others.len().saturating_sub(MAX_OTHERS) {
        why.push_str(&format!(", and {more} more places have"));
    }
    why.push_str("; it is the program's own text");
    let next = "redact another field, change that text, or allow it with `--leave` and the place";
    CaptureError::redaction(&rule, &why, next)
}

/// Where a run and its records diverge, if they do: with a guess at the change to the program, and
/// without.
fn parting(fixture: &Fixture, room: &mut Runtime) -> Result<Option<(String, String)>, RunError> {
    let (error, plain) = match fixture.replay(room) {
        Ok(replayed) => (replayed.verdict.into_error(), replayed.parting),
        // The function is missing, or can't read its input.
        Err(RunError::Failed(error)) if error.kind() != ErrorKind::RunCompacted => {
            (Some(error), None)
        }
        Err(error) => return Err(error),
    };
    let words = |error: &TaskError| format!("{} ({})", error.message(), error.code());
    Ok(error.map(|error| (words(&error), words(plain.as_ref().unwrap_or(&error)))))
}

/// Which files may be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// None.
    Nothing,
    /// An existing file, by a complete one.
    File,
}

/// A captured run as the fixture of a test.
pub struct Captured {
    fixture: Fixture,
    redacted: usize,
}

impl Captured {
    /// The run.
    pub fn run(&self) -> Uuid {
        self.fixture.run()
    }

    /// The id it was started with, after redaction.
    pub fn id(&self) -> String {
        let first = self.fixture.records().next();
        match first.map(|line| Record::read(&line)) {
            Some(Record::RunStart(start)) => owned(start.id),
            _ => String::new(),
        }
    }

    /// How many records the run has.
    pub fn records(&self) -> u64 {
        self.fixture.record_count()
    }

    /// How many values were redacted.
    pub fn redacted(&self) -> usize {
        self.redacted
    }

    /// The lines of the fixture.
    pub fn text(&self) -> &str {
        self.fixture.text()
    }

    /// A name for its files and its test, derived from its id: lowercase letters, digits and `_`,
    /// with a letter first.
    pub fn name(&self) -> String {
        name_of(&self.id()).unwrap_or_else(|| format!("run_{:.8}", self.run().to_string()))
    }

    /// Writes the fixture to a file. The file is complete or does not exist.
    pub fn write(&self, file: &Path, over: Over) -> Result<(), CaptureError> {
        write_whole(file, self.text(), over)
    }
}

/// A name derived from a text, if that contains anything usable.
pub fn name_of(text: &str) -> Option<String> {
    const MAX_NAME_BYTES: usize = 60;
    let mut name = String::new();
    for c in text.chars() {
        match c.to_ascii_lowercase() {
            c @ ('a'..='z' | '0'..='9') => name.push(c),
            _ if name.ends_with('_') || name.is_empty() => {}
            _ => name.push('_'),
        }
    }
    name.truncate(MAX_NAME_BYTES);
    let name = name.trim_end_matches('_');
    match name.as_bytes().first()? {
        b'0'..=b'9' => Some(format!("run_{name}")),
        _ => Some(name.to_owned()),
    }
}

/// Writes a temporary file next to the target, and renames it when it is complete.
pub fn write_whole(file: &Path, text: &str, over: Over) -> Result<(), CaptureError> {
    let failed = |error: &std::io::Error| LogError::io("write", file, error);
    if over == Over::Nothing && file.symlink_metadata().is_ok() {
        return Err(CaptureError::FileThere(file.to_path_buf()));
    }
    let mut new = file.as_os_str().to_owned();
    new.push(".new");
    let new = Path::new(&new);
    let written = std::fs::File::create(new)
        .and_then(|mut made| made.write_all(text.as_bytes()))
        .and_then(|()| std::fs::rename(new, file));
    if written.is_err() {
        // It may not even have been created.
        let _ = std::fs::remove_file(new);
    }
    Ok(written.map_err(|error| failed(&error))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_safe_whatever_the_id_is() {
        for (id, name) in [
            ("order-17", Some("order_17")),
            ("17", Some("run_17")),
            ("../../etc/passwd", Some("etc_passwd")),
            ("evil \u{1b}[31m", Some("evil_31m")),
            ("Zoë", Some("zo")),
            ("…", None),
            ("", None),
        ] {
            assert_eq!(name_of(id).as_deref(), name, "{id}");
        }
        assert_eq!(name_of(&"a".repeat(500)).map(|name| name.len()), Some(60));
    }
}
