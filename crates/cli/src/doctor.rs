//! `doctor`: checks the directory and the machine for possible problems. The speed of the disk is
//! measured with a temporary file; the log is not changed.

use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use serde_json::json;
use tiffany_kernel::{ErrorKind, TaskError};

use super::Done;
use super::args::State;
use super::driver::{self, Heard, Reach};
use super::error::{Ending, Shown, exit};
use super::out::Out;
use super::place::{Place, is_log};
use super::summary::Summary;
use super::table::{Cell, Table};
use tiffany::control::{Control, Paused, Status};
use tiffany::units::size;
use tiffany_log::descriptors;
use tiffany_log::{Disk, LINE_VERSION, RealDisk, View, holder};

/// The result of one check.
struct Finding {
    what: &'static str,
    /// One of `ok`, `note` and `bad`.
    state: &'static str,
    found: String,
    next: String,
}

#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn ok(&mut self, what: &'static str, found: impl Into<String>) {
        self.0.push(Finding { what, state: "ok", found: found.into(), next: String::new() });
    }

    fn note(&mut self, what: &'static str, found: impl Into<String>, next: impl Into<String>) {
        self.0.push(Finding { what, state: "note", found: found.into(), next: next.into() });
    }

    fn bad(&mut self, what: &'static str, found: impl Into<String>, next: impl Into<String>) {
        self.0.push(Finding { what, state: "bad", found: found.into(), next: next.into() });
    }
}

pub(super) fn doctor(place: &Place, mut out: Out) -> Done {
    let mut findings = Findings::default();
    let dir = &place.dir;
    findings
        .ok("version", format!("tiffany {}, log format {LINE_VERSION}", env!("CARGO_PKG_VERSION")));
    let there = match is_log(dir) {
        Ok(()) => {
            findings.ok("directory", dir.display().to_string());
            true
        }
        Err(Ending::Error(error)) => {
            findings.bad("directory", error.message, error.next);
            false
        }
        Err(Ending::Quiet) => false,
    };
    if there {
        writable(&mut findings, dir);
        medium(&mut findings, dir);
        open_files(&mut findings, dir);
        lock(&mut findings, dir);
        other_kinds(&mut findings, dir);
        log(&mut findings, place);
    }
    print(&mut out, &findings)?;
    let bad = findings.0.iter().any(|finding| finding.state == "bad");
    out.end(if bad { exit::FAILED } else { 0 })
}

fn writable(findings: &mut Findings, dir: &Path) {
    use rustix::fs::{Access, access};
    let unwritable: Vec<String> = [".", "commit", "wal", "wal/blobs", "lock"]
        .iter()
        .map(|name| dir.join(name))
        .filter(|path| path.exists() && access(path, Access::WRITE_OK | Access::READ_OK).is_err())
        .map(|path| path.display().to_string())
        .collect();
    let owner = std::fs::metadata(dir).map_or(0, |meta| meta.uid());
    match unwritable.as_slice() {
        [] => findings.ok("permissions", "it can be read and written"),
        paths => findings.bad(
            "permissions",
            format!("not writable: {}; the directory is of user {owner}", paths.join(", ")),
            "check the owner, the permissions and how it is mounted; looking at it works anyway",
        ),
    }
}

/// Returns the name of a file system with this magic number, and what to note about it.
fn kind_of(magic: u64) -> (&'static str, Option<&'static str>) {
    match magic {
        0xef53 => ("ext4", None),
        0x5846_5342 => ("xfs", None),
        0x9123_683e => ("btrfs", None),
        0x2fc1_2fc1 => ("zfs", None),
        0xf2f5_2010 => ("f2fs", None),
        0x794c_7630 => ("overlayfs", Some("its files may vanish with the container: use a volume")),
        0x0102_1994 => ("tmpfs", Some("it is in memory and is lost at a restart: use a disk")),
        0x858_458f6 => ("ramfs", Some("it is in memory and is lost at a restart: use a disk")),
        0x6969 => {
            ("nfs", Some("locks and syncs are not reliable over a network: use a local disk"))
        }
        0xff53_4d42 | 0xfe53_4d42 => {
            ("cifs", Some("locks and syncs are not reliable over a network: use a local disk"))
        }
        0x0102_1997 => {
            ("9p", Some("locks and syncs are not reliable on a shared folder: use a local disk"))
        }
        0x6573_5546 => {
            ("fuse", Some("whether syncs reach the medium depends on the program behind it"))
        }
        _ => ("unknown", None),
    }
}

fn medium(findings: &mut Findings, dir: &Path) {
    match rustix::fs::statfs(dir) {
        Ok(found) => {
            let (name, next) = kind_of(found.f_type as u64);
            match next {
                None => findings.ok("file system", name),
                Some(next) => findings.note("file system", name, next),
            }
            let free = found.f_bavail.saturating_mul(found.f_bsize as u64);
            let files = found.f_ffree;
            match free < 256 << 20 || (found.f_files > 0 && files < 10_000) {
                false => findings.ok("free space", size(free)),
                true => findings.bad(
                    "free space",
                    format!("{} and {files} files", size(free)),
                    "make room: a full disk stops all runs until the log is opened again",
                ),
            }
        }
        Err(error) => findings.bad("file system", error.to_string(), "see the system's message"),
    }
    match sync_time(dir) {
        Ok(Some(time)) if time < Duration::from_millis(20) => {
            findings.ok("fdatasync", format!("{:.2} ms, the middle of 15", time.as_secs_f64() * 1e3));
        }
        Ok(Some(time)) => findings.note(
            "fdatasync",
            format!("{:.2} ms, the middle of 15", time.as_secs_f64() * 1e3),
            "every step waits for one: use a faster disk, or `SyncWhen::Interval` where that is enough",
        ),
        Ok(None) => findings.note("fdatasync", "not measured", "the directory cannot be written"),
        Err(error) => findings.bad("fdatasync", error.to_string(), "see the system's message"),
    }
}

/// Measures how long syncing a small write takes; `None` if nothing can be written.
fn sync_time(dir: &Path) -> std::io::Result<Option<Duration>> {
    let path = dir.join(format!(".doctor-{}.tmp", std::process::id()));
    let opened = std::fs::OpenOptions::new().create_new(true).write(true).open(&path);
    let mut file = match opened {
        Ok(file) => file,
        Err(error)
            if matches!(
                error.kind(),
                std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem
            ) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let mut measure = || -> std::io::Result<Duration> {
        let mut times = Vec::new();
        for _ in 0..15 {
            let began = Instant::now();
            file.write_all(&[0; 4096])?;
            file.sync_data()?;
            times.push(began.elapsed());
        }
        times.sort_unstable();
        Ok(times[times.len() / 2])
    };
    let measured = measure();
    std::fs::remove_file(&path)?;
    measured.map(Some)
}

/// Checks how many files the process that owns the log may open; without one, a daemon started from
/// here.
fn open_files(findings: &mut Findings, dir: &Path) {
    let limits = holder(dir).and_then(|holder| limits_of(&format!("/proc/{}/limits", holder.pid)));
    let Some((soft, hard)) = limits.or_else(|| limits_of("/proc/self/limits")) else {
        return findings.note("open files", "the limit is unknown", "see `ulimit -n`");
    };
    // `serve` raises the soft limit itself.
    let limit = if limits.is_some() { soft } else { hard.min(descriptors::RAISED) };
    let found = format!("{limit} at most");
    match limit >= MIN_OPEN_FILES {
        true => findings.ok("open files", found),
        false => findings.note(
            "open files",
            found,
            format!("raise the limit to {MIN_OPEN_FILES} or more: `ulimit -n`, or `LimitNOFILE=` of a service; a daemon keeps connections to half of it"),
        ),
    }
}

/// The limit of open files below which `doctor` warns: enough for busy runs and some hundred
/// connections.
const MIN_OPEN_FILES: u64 = 1024;

/// Reads the soft and the hard limit of open files.
fn limits_of(path: &str) -> Option<(u64, u64)> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    let number = |word: &str| if word == "unlimited" { Some(u64::MAX) } else { word.parse().ok() };
    let mut words = line.split_whitespace();
    Some((number(words.next()?)?, number(words.next()?)?))
}

/// Names in a log directory that must be regular files.
const FILES: [&str; 6] =
    ["audit.jsonl", "lock", "redacted", "restoring", "tokens.json", "turn.json"];

/// Finds directories, FIFOs and other types in the places of regular files.
fn other_kinds(findings: &mut Findings, dir: &Path) {
    let is_other = |path: &PathBuf| path.symlink_metadata().is_ok_and(|about| !about.is_file());
    let mut others: Vec<PathBuf> = FILES.map(|name| dir.join(name)).into_iter().collect();
    for part in ["commit", "wal", "wal/blobs"].map(|part| dir.join(part)) {
        let names = RealDisk.others(&part).unwrap_or_default().into_iter();
        others
            .extend(names.map(|name| part.join(name)).filter(|path| !path.ends_with("wal/blobs")));
    }
    others.retain(is_other);
    if !others.is_empty() {
        let names: Vec<String> = others.iter().map(|path| path.display().to_string()).collect();
        findings.bad(
            "files",
            format!("not regular files: {}", names.join(", ")),
            "move them away, and restore the files from a copy",
        );
    }
}

fn lock(findings: &mut Findings, dir: &Path) {
    let Some(holder) = holder(dir) else { return findings.ok("in use", "by no process") };
    let next = "to change runs, talk to that process: `send`, `settle`, `cancel` and others do";
    findings.note("in use", holder.to_string(), next);
    let status = match driver::ask(&Reach::Dir(dir.to_path_buf()), Control::status) {
        Ok(Heard::Said(status)) => Ok(status),
        Ok(Heard::Silent(silence)) => Err(silence.shown(exit::FAILED)),
        Ok(Heard::Nobody) => {
            Err(TaskError::new(ErrorKind::Unreachable, "it does not listen").into())
        }
        Err(error) => Err(error.into()),
    };
    match status {
        Err(shown) => {
            findings.bad("process", format!("{} [{}]", shown.message, shown.code), shown.next);
        }
        Ok(Status { failed: Some(error), .. }) => {
            let shown = Shown::from(error);
            let next = "remove the cause and restart that process; its runs make no progress";
            findings.bad("process", format!("its log has failed: {}", shown.message), next);
        }
        Ok(status) if status.paused.is_empty() => {
            let (version, live) = (status.version, status.live);
            findings.ok("process", format!("tiffany {version}, {live} live, none paused"));
        }
        Ok(status) => {
            let name = |paused: &Paused| format!("{}: {}", paused.run, paused.error.message());
            let names: Vec<String> = status.paused.iter().map(name).collect();
            let next = status.paused[0].error.kind().next_step();
            findings.bad("process", format!("paused: {}", names.join("; ")), next);
        }
    }
}

fn log(findings: &mut Findings, place: &Place) {
    let view = match place.look() {
        Ok(view) => view,
        Err(Ending::Error(error)) => {
            findings.bad("log", format!("{} [{}]", error.message, error.code), error.next);
            return;
        }
        Err(Ending::Quiet) => return,
    };
    let is_free = view.holder().is_none();
    for loss in view.recovery().losses.iter().filter(|_| is_free) {
        let Shown { message, code, next, .. } = loss.clone().into();
        findings.bad("log", format!("{message} [{code}]"), next);
    }
    let mending = super::dry_run::mending(view.recovery());
    match mending.as_slice() {
        _ if is_free && !view.recovery().losses.is_empty() => {}
        [] => findings.ok("log", "as a process in good order leaves it"),
        _ if view.holder().is_some() => findings.ok("log", "being written"),
        [one, rest @ ..] => findings.note(
            "log",
            format!(
                "a process ended suddenly: {one}{}",
                if rest.is_empty() { "" } else { ", and more" }
            ),
            "nothing to do: it is repaired when the log is opened; `resume --dry-run` lists everything",
        ),
    }
    runs(findings, place, &view);
}

fn runs(findings: &mut Findings, place: &Place, view: &View) {
    let registry = place.builder.registry();
    let (mut live, mut damaged, mut homeless, mut latest) =
        (0, Vec::new(), Vec::new(), String::new());
    for (run, entry) in view.runs() {
        let summary = Summary::read(view, run, entry);
        latest = latest.max(summary.changed.clone());
        match summary.state {
            State::Damaged => damaged.push(run),
            State::Live | State::Ending => {
                live += 1;
                if place.has_program() && !registry.has(&summary.function) {
                    homeless.push(format!("{run} (`{}`)", summary.function));
                }
            }
            _ => {}
        }
    }
    match damaged.as_slice() {
        [] => findings.ok("runs", format!("{live} live, none of these damaged")),
        damaged => {
            let names: Vec<String> = damaged.iter().map(ToString::to_string).collect();
            let why = view.refused(damaged[0]).cloned().map(Shown::from);
            let next = why.map_or_else(|| "`doctor --verify` shows more".into(), |why| why.next);
            findings.bad("runs", format!("damaged: {}", names.join(", ")), next);
        }
    }
    if !homeless.is_empty() {
        findings.bad(
            "functions",
            format!("not registered in this program: {}", homeless.join(", ")),
            "register them, or the runs stay paused",
        );
    }
    clock(findings, &latest);
}

fn clock(findings: &mut Findings, latest: &str) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let now =
        tiffany_log::Stamp::from_unix_nanos(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX));
    let now = now.as_str();
    if now < "2024" {
        let next = "set the clock: timers of runs are moments of this clock";
        findings.bad("clock", format!("it says {now}"), next);
    } else if latest > now {
        let found = format!("it says {now}, and the log has records of {latest}");
        findings.bad(
            "clock",
            found,
            "set the clock: sleeps end late, and the clock of a run does not advance until then",
        );
    } else {
        findings.ok("clock", "not before the last record");
    }
}

fn print(out: &mut Out, findings: &Findings) -> Result<(), Ending> {
    if out.json {
        return findings.0.iter().try_for_each(|Finding { what, state, found, next }| {
            out.json(&json!({ "check": what, "state": state, "found": found, "next": next }))
        });
    }
    let mut table = Table::new(&["CHECK", "STATE", "FOUND", "NEXT"]);
    for Finding { what, state, found, next } in &findings.0 {
        let style = super::out::Style::of_state(state);
        table.row(vec![Cell::from(*what), Cell::new(style, state), found.into(), next.into()]);
    }
    table.print(out)
}
