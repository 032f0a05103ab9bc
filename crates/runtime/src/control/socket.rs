//! The socket in a log's directory, through which other processes send requests to the one that
//! owns it. A request is a line of JSON, and so is its answer. Only the user of the owning process
//! may connect.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::Shutdown;
use tiffany_kernel::{ErrorKind, TaskError};

use super::server::{self, MAX_LINE_BYTES};
use super::{UNANSWERED, unexpected};
use crate::activity::hub::Hub;
use crate::control::audit_hook::AuditHook;
use crate::control::event_stream::Watching;
use crate::host::inbox::Inbox;
use tiffany_log::not_inherited::NotInherited;
use tiffany_records::activity::Wanted;
use tiffany_records::request::{Answer, Request};

/// The name of the socket.
const NAME: &str = "control.sock";
/// After this without an answer, a client may want to say so.
const SILENCE: Duration = Duration::from_secs(2);
/// How many may wait to be accepted, where the system allows as many.
const BACKLOG: i32 = 4096;

/// What everybody needs who is connected.
#[derive(Clone)]
pub(crate) struct House {
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) hub: Hub,
    pub(crate) audit_hook: Option<Arc<dyn AuditHook>>,
}

/// The socket of the process that owns the directory, for as long as it does.
pub(crate) struct Listening {
    listener: Arc<NotInherited<UnixListener>>,
    path: PathBuf,
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Listening {
    /// The lock of the directory must be held: what is left of another socket there is removed.
    pub(crate) fn start(dir: &Path, house: House) -> io::Result<Listening> {
        let path = dir.join(NAME);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let bind = || reached(dir, |path| UnixListener::bind(path));
        let listener = Arc::new(NotInherited::open(bind)?);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        rustix::net::listen(&**listener, BACKLOG)?;
        let ending = Arc::new(AtomicBool::new(false));
        let (listens, ends) = (Arc::clone(&listener), Arc::clone(&ending));
        let thread = std::thread::Builder::new()
            .name("tiffany-control".into())
            .spawn(move || server::serve(&listens, &ends, &house))?;
        Ok(Listening { listener, path, ending, thread: Some(thread) })
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // In a forked child neither the socket nor its name is ours, and its thread is not there.
        if !self.listener.is_ours() {
            return;
        }
        self.ending.store(true, Ordering::SeqCst);
        // It is woken by this; if it were not, it must not keep the process.
        let woken = rustix::net::shutdown(self.listener.as_fd(), Shutdown::Both).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            drop(thread.join());
        }
        drop(std::fs::remove_file(&self.path));
    }
}

/// `None`: the other side is done.
fn read_line(reader: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    reader.take(MAX_LINE_BYTES as u64).read_until(b'\n', &mut line)?;
    match line.pop() {
        Some(b'\n') => Ok(Some(line)),
        None => Ok(None),
        Some(_) => Err(io::Error::new(io::ErrorKind::InvalidData, "a line without an end")),
    }
}

pub(super) fn write_line(mut stream: &UnixStream, what: &impl serde::Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// A connection to the process that has a directory.
pub(super) struct Client {
    dir: PathBuf,
    /// How long an answer is waited for.
    patience: Duration,
    /// Called with the directory if an answer takes longer than [`SILENCE`].
    pub(super) on_silence: Option<fn(&Path)>,
    reader: BufReader<UnixStream>,
}

impl Client {
    /// `None`: no process listens there.
    pub(super) fn connect(dir: &Path, patience: Duration) -> Result<Option<Client>, TaskError> {
        match reached(dir, |path| connect(path, patience)) {
            Ok(stream) => {
                check_peer(dir, &stream).map_err(|error| lost(&error))?;
                let reader = BufReader::new(stream);
                Ok(Some(Client { dir: dir.into(), patience, on_silence: None, reader }))
            }
            Err(error) if is_late(&error) => Err(lost(&io::Error::other(silent(patience)))),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(lost(&error)),
            Err(_) => Ok(None),
        }
    }

    /// The number of the process that listens, as the system says.
    pub(super) fn peer(&self) -> Option<u32> {
        let peer = rustix::net::sockopt::socket_peercred(self.reader.get_ref()).ok()?;
        u32::try_from(peer.pid.as_raw_nonzero().get()).ok()
    }

    pub(super) fn ask(&mut self, request: &Request) -> Result<Answer, TaskError> {
        let answer = match self.exchange(request) {
            // An idle connection may have been closed to make room. Then the request was not read.
            Err(error) if is_closed(&error) && self.reconnect() => self.exchange(request),
            answer => answer,
        };
        let unsure = |why: &str| lost(&io::Error::other(format!("{why}; {UNANSWERED}")));
        let Some(answer) = answer.map_err(|error| match is_late(&error) {
            true => unsure(&silent(self.patience)),
            false => lost(&error),
        })?
        else {
            return Err(unsure("it ended before it answered"));
        };
        serde_json::from_slice::<Result<Answer, TaskError>>(&answer)
            .map_err(|error| lost(&error.into()))?
    }

    fn exchange(&mut self, request: &Request) -> io::Result<Option<Vec<u8>>> {
        write_line(self.reader.get_ref(), request)?;
        if let Some(on_silence) = self.on_silence
            && !is_readable(self.reader.get_ref(), SILENCE)?
        {
            on_silence(&self.dir);
        }
        read_line(&mut self.reader)
    }

    fn reconnect(&mut self) -> bool {
        let on_silence = self.on_silence;
        let again = Client::connect(&self.dir, self.patience).ok().flatten();
        again.map(|again| *self = Client { on_silence, ..again }).is_some()
    }

    /// Turns the connection into a stream of events.
    pub(super) fn watch(mut self, wanted: Wanted) -> Result<Watching, TaskError> {
        match self.ask(&Request::Events(wanted))? {
            Answer::Streaming(beginning) => Ok(Watching::socket(self.reader, beginning)),
            other => Err(unexpected(&other)),
        }
    }
}

/// Whether something comes within this time, be it the end.
fn is_readable(stream: &UnixStream, within: Duration) -> io::Result<bool> {
    let timeout = server::timespec(within);
    let mut polled = [PollFd::new(stream, PollFlags::IN)];
    let count = rustix::io::retry_on_intr(|| poll(&mut polled, Some(&timeout)))?;
    Ok(count > 0)
}

/// Connects, and gives up in time if the other side does not accept.
fn connect(path: &Path, patience: Duration) -> io::Result<UnixStream> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
    let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    let stream = UnixStream::from(socket);
    stream.set_write_timeout(Some(patience))?;
    stream.set_read_timeout(Some(patience))?;
    let address = SocketAddrUnix::new(path)?;
    rustix::io::retry_on_intr(|| rustix::net::connect(&stream, &address))?;
    Ok(stream)
}

/// An error if another user listens than this one, root, or the owner of the directory.
fn check_peer(dir: &Path, stream: &UnixStream) -> io::Result<()> {
    let peer = rustix::net::sockopt::socket_peercred(stream)?.uid;
    let owns_dir = || std::fs::metadata(dir).is_ok_and(|dir| dir.uid() == peer.as_raw());
    match peer == rustix::process::geteuid() || peer.is_root() || owns_dir() {
        true => Ok(()),
        false => {
            let message = format!("its socket is that of another user, {}", peer.as_raw());
            Err(io::Error::other(message))
        }
    }
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Whether the other side closed the connection without having read what was sent.
fn is_closed(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

fn silent(patience: Duration) -> String {
    format!("it has not answered for {patience:?}")
}

pub(super) fn lost(error: &io::Error) -> TaskError {
    let message = format!("the process that has the directory cannot be asked: {error}");
    TaskError::new(ErrorKind::Unreachable, message)
}

/// Does something with the path of a directory's socket. A path may be longer than the name of a socket can be; then the
/// directory is named by a descriptor.
fn reached<R>(dir: &Path, act: impl Fn(&Path) -> io::Result<R>) -> io::Result<R> {
    const MAX_PATH_BYTES: usize = 100;
    let path = dir.join(NAME);
    if path.as_os_str().len() < MAX_PATH_BYTES {
        return act(&path);
    }
    let dir = std::fs::File::open(dir)?;
    let descriptor = std::os::fd::AsRawFd::as_raw_fd(&dir);
    act(&PathBuf::from(format!("/proc/self/fd/{descriptor}/{NAME}")))
}
