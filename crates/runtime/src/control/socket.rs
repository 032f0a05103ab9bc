//! The socket in a log's directory, by which other processes ask the one that has it. A request is a line of
//! JSON, and so is its answer. Nobody else than this user may ask.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::net::Shutdown;
use tiffany_kernel::{ErrorKind, TaskError};

use super::request::{Answer, Request};
use super::streaming::{self, Watching};
use super::witness::{Witness, seen};
use super::{PATIENCE, ask_here, unexpected};
use crate::inbox::Inbox;
use crate::not_inherited::NotInherited;
use crate::pal::{Hub, Wanted};

/// The name of the socket.
const NAME: &str = "control.sock";
/// How long a line may be.
const LONGEST: u64 = 64 << 20;
/// How many may be connected at once.
const MOST: usize = 32;
/// How many may watch at once, besides.
const MOST_WATCHING: usize = 64;
/// How long somebody who is connected may say nothing.
const SILENCE: Duration = Duration::from_secs(300);

/// What everybody needs who is connected.
#[derive(Clone)]
pub(crate) struct House {
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) hub: Hub,
    pub(crate) witness: Option<Arc<dyn Witness>>,
}

/// The socket of the process that has the directory, for as long as it has it.
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
        let ending = Arc::new(AtomicBool::new(false));
        let (listens, ends) = (Arc::clone(&listener), Arc::clone(&ending));
        let thread = std::thread::Builder::new()
            .name("tiffany-control".into())
            .spawn(move || listen(&listens, &ends, &house))?;
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

fn listen(listener: &UnixListener, ending: &AtomicBool, house: &House) {
    let connected = Arc::new(AtomicUsize::new(0));
    let watching = Arc::new(AtomicUsize::new(0));
    while !ending.load(Ordering::SeqCst) {
        let Ok((stream, _)) = listener.accept() else {
            // Too many open files, say. Others may be closed meanwhile.
            std::thread::sleep(Duration::from_millis(20));
            continue;
        };
        if !is_ours(&stream) {
            continue;
        }
        let count = Count::new(&connected);
        let (house, watching) = (house.clone(), Arc::clone(&watching));
        let too_many = count.0.load(Ordering::SeqCst) > MOST;
        let serve = move || {
            // Who asks may be gone at any time.
            let Ok(Some(wanted)) = serve(&stream, &house, &watching, too_many) else { return };
            // Who watches may stay for long, and keeps nobody from asking.
            drop(count);
            let _count = Count::new(&watching);
            drop(streaming::serve(&stream, &house.hub, wanted));
        };
        drop(std::thread::Builder::new().name("tiffany-control".into()).spawn(serve));
    }
}

/// Counts those who are connected.
struct Count(Arc<AtomicUsize>);

impl Count {
    fn new(count: &Arc<AtomicUsize>) -> Count {
        count.fetch_add(1, Ordering::SeqCst);
        Count(Arc::clone(count))
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Whether the other side is this user, or the one who may do everything.
fn is_ours(stream: &UnixStream) -> bool {
    let ours = rustix::process::geteuid();
    rustix::net::sockopt::socket_peercred(stream)
        .is_ok_and(|peer| peer.uid == ours || peer.uid.is_root())
}

/// Answers until the other side is done, or wants to watch.
fn serve(
    stream: &UnixStream,
    house: &House,
    watching: &AtomicUsize,
    too_many: bool,
) -> io::Result<Option<Wanted>> {
    stream.set_read_timeout(Some(SILENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let peer = rustix::net::sockopt::socket_peercred(stream)?.uid.as_raw();
    let mut reader = BufReader::new(stream);
    while let Some(line) = read_line(&mut reader)? {
        let answer = if too_many {
            let message = format!("more than {MOST} are connected to this process; try it later");
            Err(TaskError::new(ErrorKind::Unreachable, message))
        } else {
            match serde_json::from_slice::<Request>(&line) {
                Ok(Request::Events(wanted)) => {
                    if watching.load(Ordering::SeqCst) < MOST_WATCHING {
                        return Ok(Some(wanted));
                    }
                    let message = format!(
                        "more than {MOST_WATCHING} are watching this process; try it later"
                    );
                    Err(TaskError::new(ErrorKind::Unreachable, message))
                }
                Ok(request) => {
                    let request = request.asked_by_user(peer);
                    let ask = |request| ask_here(&house.inbox, request);
                    seen(house.witness.as_deref(), peer, request, ask)
                }
                Err(error) => {
                    let message = format!("the request cannot be read: {error}");
                    Err(TaskError::new(ErrorKind::BadArgument, message))
                }
            }
        };
        write_line(stream, &answer)?;
    }
    Ok(None)
}

/// `None`: the other side is done.
fn read_line(reader: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    reader.take(LONGEST).read_until(b'\n', &mut line)?;
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
    reader: BufReader<UnixStream>,
}

impl Client {
    /// `None`: nobody listens there.
    pub(super) fn connect(dir: &Path) -> Result<Option<Client>, TaskError> {
        match reached(dir, |path| UnixStream::connect(path)) {
            Ok(stream) => {
                // It waits for its loop, and this waits for it.
                let set = stream.set_read_timeout(Some(2 * PATIENCE));
                set.map_err(|error| lost(&error))?;
                Ok(Some(Client { reader: BufReader::new(stream) }))
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(lost(&error)),
            Err(_) => Ok(None),
        }
    }

    /// The number of the process that listens, as the system says.
    #[cfg(feature = "cli")]
    pub(super) fn peer(&self) -> Option<u32> {
        let peer = rustix::net::sockopt::socket_peercred(self.reader.get_ref()).ok()?;
        u32::try_from(peer.pid.as_raw_nonzero().get()).ok()
    }

    pub(super) fn ask(&mut self, request: &Request) -> Result<Answer, TaskError> {
        let answer = write_line(self.reader.get_ref(), request)
            .and_then(|()| read_line(&mut self.reader))
            .map_err(|error| lost(&error))?;
        let Some(answer) = answer else {
            return Err(lost(&io::Error::other("it ended before it answered")));
        };
        serde_json::from_slice::<Result<Answer, TaskError>>(&answer)
            .map_err(|error| lost(&error.into()))?
    }

    /// The same connection as a stream of events.
    pub(super) fn watch(mut self, wanted: Wanted) -> Result<Watching, TaskError> {
        match self.ask(&Request::Events(wanted))? {
            Answer::Streaming(beginning) => Ok(Watching::socket(self.reader, beginning)),
            other => Err(unexpected(&other)),
        }
    }
}

pub(super) fn lost(error: &io::Error) -> TaskError {
    let message = format!("the process that has the directory cannot be asked: {error}");
    TaskError::new(ErrorKind::Unreachable, message)
}

/// Does something with the path of a directory's socket. A path may be longer than the name of a socket can be; then the
/// directory is named by a descriptor.
fn reached<R>(dir: &Path, act: impl Fn(&Path) -> io::Result<R>) -> io::Result<R> {
    const ENOUGH: usize = 100;
    let path = dir.join(NAME);
    if path.as_os_str().len() < ENOUGH {
        return act(&path);
    }
    let dir = std::fs::File::open(dir)?;
    let descriptor = std::os::fd::AsRawFd::as_raw_fd(&dir);
    act(&PathBuf::from(format!("/proc/self/fd/{descriptor}/{NAME}")))
}
