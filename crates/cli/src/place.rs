//! The directory a command works on, and the program it works for: finding runs by what people call
//! them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tiffany_kernel::{ErrorKind, TaskError, Uuid};

use super::driver::{self, Reach};
use super::error::{CliError, Ending, Shown};
use super::remote::{Mirror, Remote};
use super::summary::Summary;
use tiffany::Builder;
use tiffany::Runtime;
use tiffany::command::SHORTEST;
use tiffany::command::did_you_mean;
use tiffany::command::run_id;
use tiffany::control::{Answer, AuditHook, Control, Request};
use tiffany::retention::Keeper;
use tiffany_log::{LogError, RealDisk, RunState, View, is_redacted, rules_of};
use tiffany_records::errors::run_removed;
use tiffany_records::redact;

pub(super) struct Place {
    /// The directory; of a daemon, the one that its runs are copied into.
    pub(super) dir: PathBuf,
    pub(super) reach: Reach,
    mirror: Option<Mirror>,
    pub(super) builder: Builder,
    /// The hook that audits changes while no process owns the log.
    audit_hook: Option<Arc<dyn AuditHook>>,
}

/// A view of the directory, as complete as it is readable.
pub(super) struct Sight {
    pub(super) view: View,
    /// Why only the files of the runs could be read.
    pub(super) trouble: Option<LogError>,
}

impl Place {
    pub(super) fn new(dir: PathBuf, builder: Builder) -> Place {
        let reach = Reach::Dir(dir.clone());
        Place { dir, reach, mirror: None, builder, audit_hook: None }
    }

    /// A daemon instead of a directory.
    pub(super) fn of_daemon(remote: Arc<Remote>, builder: Builder) -> Result<Place, TaskError> {
        let mirror = Mirror::new(&remote)?;
        let dir = mirror.dir().to_path_buf();
        let reach = Reach::Daemon(remote);
        Ok(Place { dir, reach, mirror: Some(mirror), builder, audit_hook: None })
    }

    /// Whether it is a daemon, of which only the runs that were named are in the directory.
    pub(super) fn is_remote(&self) -> bool {
        self.mirror.is_some()
    }

    /// Has what is written of a run from now on come into its file, if it is one of a daemon.
    pub(super) fn follow(&self, run: Uuid) {
        if let Some(mirror) = &self.mirror {
            mirror.follow(run);
        }
    }

    /// A long value of a run of a daemon.
    pub(super) fn remote_blob(&self, run: Uuid, hash: &str) -> Option<Result<Vec<u8>, TaskError>> {
        self.mirror.as_ref().map(|mirror| mirror.blob(run, hash))
    }

    /// The run that is called so.
    pub(super) fn find(&self, name: &str) -> Result<Uuid, Ending> {
        match &self.reach {
            Reach::Dir(_) => find(&self.look_for(&[name])?, name),
            Reach::Daemon(remote) => {
                let found = remote.control()?.ask(Request::Find { name: name.into() })?;
                match found {
                    Answer::Found(run) => Ok(run),
                    other => Err(tiffany::command::unexpected(&other).into()),
                }
            }
        }
    }

    /// The run's id, which people know it by.
    pub(super) fn id_of(&self, run: Uuid) -> Option<String> {
        match &self.reach {
            Reach::Dir(_) => {
                let view = self.look_for(&[&run.to_string()]).ok()?;
                view.run(run).map(|entry| Summary::read(&view, run, entry).id)
            }
            Reach::Daemon(remote) => Some(remote.control().ok()?.show(run).ok()?.summary.id),
        }
    }

    fn mirrored(&self, names: &[&str]) -> Option<Result<View, Ending>> {
        let mirror = self.mirror.as_ref()?;
        let fetch = || {
            for name in names {
                mirror.fetch(name)?;
            }
            Ok(View::of_files(Arc::new(RealDisk), &self.dir)?)
        };
        Some(fetch())
    }

    /// Sets the hook that audits changes.
    pub(super) fn audited_by(self, audit_hook: Option<Arc<dyn AuditHook>>) -> Place {
        Place { audit_hook, ..self }
    }

    /// The log, to be changed.
    pub(super) fn control(&self) -> Result<Control, TaskError> {
        if let Reach::Daemon(remote) = &self.reach {
            return Ok(remote.control()?.on_warning(warn));
        }
        let control =
            Control::open(&self.dir)?.on_warning(warn).on_silence(driver::say_that_it_waits);
        Ok(match &self.audit_hook {
            Some(audit_hook) => control.audited_by(Arc::clone(audit_hook)),
            None => control,
        })
    }

    /// Returns a connection to the process that owns the log, for changes.
    pub(super) fn process(&self) -> Result<Option<Control>, TaskError> {
        let control = self.reach.connect()?;
        Ok(control.map(|it| it.on_warning(warn).on_silence(driver::say_that_it_waits)))
    }

    /// Opens the log to remove and compact finished runs.
    pub(super) fn keeper(&self) -> Result<Keeper, TaskError> {
        Ok(Keeper::through(self.control()?, &self.dir))
    }

    /// Whether there is a program behind the command line.
    pub(super) fn has_program(&self) -> bool {
        !self.builder.registry().is_empty()
    }

    /// Returns an error that names what the command needs, if there is no program.
    pub(super) fn need_program(&self, what: &str) -> Result<(), Ending> {
        match self.has_program() {
            true => Ok(()),
            false => Err(CliError::NeedsProgram(format!(
                "{what} needs the code of the runs, which this command line does not have"
            ))
            .into()),
        }
    }

    /// Looks into the directory. No file is changed.
    pub(super) fn look(&self) -> Result<View, Ending> {
        if let Some(view) = self.mirrored(&[]) {
            return view;
        }
        is_log(&self.dir)?;
        Ok(View::open(Arc::new(RealDisk), &self.dir)?)
    }

    /// Looks into the directory; if the index or the commit log is damaged, at the files of the
    /// runs alone.
    pub(super) fn look_anyhow(&self) -> Result<Sight, Ending> {
        is_log(&self.dir)?;
        let (view, trouble) = View::open_anyhow(Arc::new(RealDisk), &self.dir)?;
        Ok(Sight { view, trouble })
    }

    /// Looks for runs that were named. No other run's file is opened, however many there are.
    pub(super) fn look_for(&self, names: &[&str]) -> Result<View, Ending> {
        if let Some(view) = self.mirrored(names) {
            return view;
        }
        is_log(&self.dir)?;
        let choose = |known: &mut dyn Iterator<Item = Uuid>| candidates(names, known);
        Ok(View::open_chosen(Arc::new(RealDisk), &self.dir, &choose)?)
    }

    /// Looks for runs that were named; if the index or the commit log is damaged, at the files of
    /// the runs alone.
    pub(super) fn look_anyhow_for(&self, names: &[&str]) -> Result<Sight, Ending> {
        if let Some(view) = self.mirrored(names) {
            return Ok(Sight { view: view?, trouble: None });
        }
        is_log(&self.dir)?;
        let (disk, dir) = (Arc::new(RealDisk), &self.dir);
        let choose = |known: &mut dyn Iterator<Item = Uuid>| candidates(names, known);
        match View::open_chosen(disk.clone(), dir, &choose) {
            Ok(view) => Ok(Sight { view, trouble: None }),
            Err(trouble) => {
                let (view, trouble) = View::of_files_after(trouble, disk, dir)?;
                Ok(Sight { view, trouble: Some(trouble) })
            }
        }
    }

    /// Returns whether the log is redacted by rules that this process doesn't have. Then the code
    /// of its runs must not be executed: it would have the secrets in memory, and would behave
    /// differently.
    pub(super) fn lacks_rules(&self) -> bool {
        is_redacted(&RealDisk, &self.dir)
            && redact::known()
                .is_none_or(|known| !rules_of(&RealDisk, &self.dir).is_subset(&known.marks()))
    }

    /// A runtime without a log, to try runs in.
    pub(super) fn rehearsal_room(self) -> Result<Runtime, Ending> {
        if self.lacks_rules() {
            return Err(CliError::NeedsRules(self.dir).into());
        }
        Ok(self.builder.without_log().build()?)
    }
}

impl Sight {
    /// Prints on standard error that not everything could be read.
    pub(super) fn warn(&self) {
        if let Some(trouble) = &self.trouble {
            let shown = Shown::from(trouble.clone());
            let message = super::out::clean(&shown.message).into_owned();
            eprintln!("warning[{}]: {message}; only the files of the runs are read", shown.code);
        }
    }
}

/// Prints a warning about a change that was made.
fn warn(text: &str) {
    eprintln!("warning: {}", super::out::clean(text));
}

/// Returns an error if the directory has no log.
pub(super) fn is_log(dir: &Path) -> Result<(), Ending> {
    let has = |name: &str| std::fs::metadata(dir.join(name));
    match (has("commit"), has("wal")) {
        (Err(error), Err(_)) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            let shown = Shown::from(LogError::io("look into", dir, &error));
            Err(Ending::Error(Shown {
                message: format!("cannot read {}: this user has no permission", dir.display()),
                next: "do it as the user that the directory belongs to, or check its permissions"
                    .into(),
                ..shown
            }))
        }
        (Err(_), Err(_)) => Err(CliError::NoLog(dir.to_path_buf()).into()),
        _ => Ok(()),
    }
}

/// The most runs that are opened because their UUIDs start with the name. A name that matches more
/// is ambiguous anyway.
const LIKELY: usize = 8;

/// Returns the runs that some names may mean, known or not.
fn candidates(names: &[&str], known: &mut dyn Iterator<Item = Uuid>) -> Vec<Uuid> {
    let mut likely: Vec<Uuid> =
        names.iter().flat_map(|name| [Uuid::parse(name), Some(run_id(name))]).flatten().collect();
    let begins: Vec<String> = names.iter().filter_map(|name| hex_digits(name)).collect();
    if !begins.is_empty() {
        let fits = |uuid: &Uuid| begins.iter().any(|digits| begins_with(uuid, digits));
        likely.extend(known.filter(fits).take(LIKELY * names.len()));
    }
    likely.sort_unstable();
    likely.dedup();
    likely
}

/// Returns the name as the prefix of a UUID without its hyphens, if it can be one.
fn hex_digits(name: &str) -> Option<String> {
    let digits: String = name.chars().filter(|c| *c != '-').collect::<String>().to_lowercase();
    let is_hex = digits.len() >= SHORTEST && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex.then_some(digits)
}

fn begins_with(uuid: &Uuid, digits: &str) -> bool {
    format!("{:032x}", uuid.0).starts_with(digits)
}

/// Finds a run by its UUID, by the id it was started with, or by the beginning of its UUID.
pub(super) fn find(view: &View, name: &str) -> Result<Uuid, Ending> {
    let known = |uuid: &Uuid| view.run(*uuid).is_some();
    if let Some(uuid) = Uuid::parse(name).filter(known) {
        return Ok(uuid);
    }
    let by_id = run_id(name);
    if known(&by_id) {
        return Ok(by_id);
    }
    let fitting: Vec<Uuid> = match hex_digits(name) {
        Some(digits) => {
            let known = view.runs().map(|(uuid, _)| uuid);
            known.filter(|uuid| begins_with(uuid, &digits)).collect()
        }
        None => Vec::new(),
    };
    match fitting.as_slice() {
        [] => Err(no_such_run(view, name)),
        [one] => Ok(*one),
        several => {
            let runs = several.iter().take(4).map(Uuid::to_string).collect();
            Err(CliError::Ambiguous { prefix: name.into(), runs }.into())
        }
    }
}

/// The most runs that are searched for one with a similar name.
const LOOKED_AT: usize = 2_000;

fn no_such_run(view: &View, name: &str) -> Ending {
    let there = view.runs().filter(|(_, entry)| entry.state != RunState::Removed);
    let ids = there.take(LOOKED_AT).map(|(run, entry)| Summary::read(view, run, entry).id);
    let meant =
        did_you_mean(name, ids).map_or_else(String::new, |id| format!("; did you mean `{id}`?"));
    let mut shown = Shown::from(TaskError::new(
        ErrorKind::NoSuchRun,
        format!("there is no run `{name}` in {}{meant}", view.root().display()),
    ));
    shown.next = "`ls` lists the runs, by UUID and by id".into();
    Ending::Error(shown)
}

/// Finds a run that has records.
pub(super) fn find_kept(view: &View, name: &str) -> Result<Uuid, Ending> {
    let run = find(view, name)?;
    match view.run(run).is_some_and(|entry| entry.state == RunState::Removed) {
        true => Err(run_removed(run).into()),
        false => Ok(run),
    }
}

/// Finds runs that were named, or all that are not removed.
pub(super) fn find_all(view: &View, names: &[String]) -> Result<Vec<Uuid>, Ending> {
    if !names.is_empty() {
        return names.iter().map(|name| find(view, name)).collect();
    }
    let there = view.runs().filter(|(_, entry)| entry.state != RunState::Removed);
    Ok(there.map(|(uuid, _)| uuid).collect())
}
