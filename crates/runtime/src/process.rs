//! Child processes. Their output is a stream like any other, and their end is an event of a
//! descriptor (a pidfd), so that waiting for one needs no thread and no signal handler.

use std::ffi::OsStr;
use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::panic::Location;
use std::path::Path;
use std::process::{self, ExitStatus, Output, Stdio};

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tiffany_kernel::Interest;

use crate::host::reactor::Assume;
use crate::io::source::{Attempt, Source, refuse_durable, set_nonblocking};
use crate::io::source::{has_descriptor, stream_reads, stream_writes};
use crate::join;

/// A program to start.
///
/// ```
/// use tiffany::process::Command;
///
/// tiffany::try_run(async {
///     let output = Command::new("echo").arg("hello").output().await?;
///     assert!(output.status.success());
///     assert_eq!(output.stdout, b"hello\n");
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
#[derive(Debug)]
pub struct Command {
    command: process::Command,
    stdin: Option<Stdio>,
    stdout: Option<Stdio>,
    stderr: Option<Stdio>,
    on_drop: OnDrop,
}

/// What happens to a child whose handle is dropped before it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnDrop {
    Leave,
    Kill,
}

impl Command {
    /// A program, which is searched in `PATH` unless it is a path.
    pub fn new(program: impl AsRef<OsStr>) -> Command {
        Command::from(process::Command::new(program))
    }

    /// Adds an argument.
    pub fn arg(&mut self, arg: impl AsRef<OsStr>) -> &mut Command {
        self.command.arg(arg);
        self
    }

    /// Adds arguments.
    pub fn args(&mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> &mut Command {
        self.command.args(args);
        self
    }

    /// Sets an environment variable of the program.
    pub fn env(&mut self, key: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> &mut Command {
        self.command.env(key, value);
        self
    }

    /// Sets the working directory of the program.
    pub fn current_dir(&mut self, directory: impl AsRef<Path>) -> &mut Command {
        self.command.current_dir(directory);
        self
    }

    /// Sets its standard input.
    pub fn stdin(&mut self, stdin: impl Into<Stdio>) -> &mut Command {
        self.stdin = Some(stdin.into());
        self
    }

    /// Sets its standard output.
    pub fn stdout(&mut self, stdout: impl Into<Stdio>) -> &mut Command {
        self.stdout = Some(stdout.into());
        self
    }

    /// Sets its standard error.
    pub fn stderr(&mut self, stderr: impl Into<Stdio>) -> &mut Command {
        self.stderr = Some(stderr.into());
        self
    }

    /// Kills the child if its [`Child`] is dropped (by a cancelled task, for example) before it has
    /// ended.
    pub fn kill_on_drop(&mut self) -> &mut Command {
        self.on_drop = OnDrop::Kill;
        self
    }

    /// The command of the standard library, for other options. Set stdin, stdout and stderr here
    /// and not there.
    pub fn as_std_mut(&mut self) -> &mut process::Command {
        &mut self.command
    }

    /// Starts the program. It inherits stdin, stdout and stderr by default.
    ///
    /// ```
    /// use std::process::Stdio;
    /// use tiffany::io::Lines;
    /// use tiffany::process::Command;
    ///
    /// tiffany::try_run(async {
    ///     let mut command = Command::new("sh");
    ///     let mut child = command.args(["-c", "echo one; echo two"]).stdout(Stdio::piped()).spawn()?;
    ///     let mut lines = Lines::new(child.stdout.take().expect("it is piped"));
    ///     while let Some(line) = lines.next_line().await? {
    ///         println!("it said {line}");
    ///     }
    ///     assert!(child.wait().await?.success());
    ///     Ok::<(), std::io::Error>(())
    /// })?;
    /// # Ok::<(), tiffany::RunError>(())
    /// ```
    #[track_caller]
    pub fn spawn(&mut self) -> io::Result<Child> {
        self.start(Stdio::inherit, Stdio::inherit)
    }

    /// Runs the program and waits until it has ended.
    #[track_caller]
    pub fn status(&mut self) -> impl Future<Output = io::Result<ExitStatus>> {
        let at = Location::caller();
        let child = self.spawn();
        async move { child?.wait_at(at).await }
    }

    /// Runs the program without input and waits until it has ended, and collects its output and
    /// errors.
    #[track_caller]
    pub fn output(&mut self) -> impl Future<Output = io::Result<Output>> {
        let at = Location::caller();
        let child = self.start(Stdio::null, Stdio::piped);
        async move { child?.wait_with_output_at(at).await }
    }

    /// Starts the program, with these defaults for what was not set.
    #[track_caller]
    fn start(&mut self, input: fn() -> Stdio, output: fn() -> Stdio) -> io::Result<Child> {
        refuse_durable("a child process", Location::caller())?;
        // The settings are used once, because the standard library's `Stdio` cannot be copied.
        self.command.stdin(self.stdin.take().unwrap_or_else(input));
        self.command.stdout(self.stdout.take().unwrap_or_else(output));
        self.command.stderr(self.stderr.take().unwrap_or_else(output));
        Child::new(self.command.spawn()?, self.on_drop)
    }
}

impl From<process::Command> for Command {
    fn from(command: process::Command) -> Command {
        Command { command, stdin: None, stdout: None, stderr: None, on_drop: OnDrop::Leave }
    }
}

/// A child process.
///
/// A child that is waited for leaves no zombie. If it is dropped before, it keeps running, and if
/// it ends while this process lives it becomes a zombie; with [`Command::kill_on_drop`] it is
/// killed and reaped.
#[derive(Debug)]
pub struct Child {
    /// The child's standard input, if it is piped.
    pub stdin: Option<ChildStdin>,
    /// The child's standard output, if it is piped.
    pub stdout: Option<ChildStdout>,
    /// The child's standard error, if it is piped.
    pub stderr: Option<ChildStderr>,
    child: process::Child,
    /// Readable once the child has ended.
    exit: Source<OwnedFd>,
    on_drop: OnDrop,
}

impl Child {
    fn new(mut child: process::Child, on_drop: OnDrop) -> io::Result<Child> {
        match Child::register(&mut child) {
            Ok((stdin, stdout, stderr, exit)) => {
                Ok(Child { stdin, stdout, stderr, child, exit, on_drop })
            }
            Err(error) => {
                // Nothing could wait for it, so it must not live.
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    #[expect(clippy::type_complexity, reason = "the fields of the one caller")]
    fn register(
        child: &mut process::Child,
    ) -> io::Result<(Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>, Source<OwnedFd>)>
    {
        let pidfd = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
        Ok((
            child.stdin.take().map(ChildStdin::from_std).transpose()?,
            child.stdout.take().map(ChildStdout::from_std).transpose()?,
            child.stderr.take().map(ChildStderr::from_std).transpose()?,
            Source::assuming(pidfd, Assume::Nothing)?,
        ))
    }

    /// The number of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the child has ended. Its stdin is closed first, so that a child that reads it
    /// can end.
    #[track_caller]
    pub fn wait(&mut self) -> impl Future<Output = io::Result<ExitStatus>> {
        self.wait_at(Location::caller())
    }

    async fn wait_at(&mut self, at: &'static Location<'static>) -> io::Result<ExitStatus> {
        drop(self.stdin.take());
        let Child { child, exit, .. } = self;
        exit.operate(Interest::Read, at, |_| match child.try_wait()? {
            Some(status) => Ok(Attempt::Done(status)),
            None => Err(io::ErrorKind::WouldBlock.into()),
        })
        .await
    }

    /// Waits until the child has ended, and collects its output and errors meanwhile.
    #[track_caller]
    pub fn wait_with_output(self) -> impl Future<Output = io::Result<Output>> {
        self.wait_with_output_at(Location::caller())
    }

    async fn wait_with_output_at(mut self, at: &'static Location<'static>) -> io::Result<Output> {
        let (stdout, stderr) = (self.stdout.take(), self.stderr.take());
        let (status, stdout, stderr) =
            join!(self.wait_at(at), collect(stdout, at), collect(stderr, at));
        Ok(Output { status: status?, stdout: stdout?, stderr: stderr? })
    }

    /// The status, if the child has ended.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Kills the child. It has ended only when [`wait`](Child::wait) returns.
    pub fn kill(&mut self) -> io::Result<()> {
        self.child.kill()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.on_drop == OnDrop::Leave {
            return;
        }
        let pid = Pid::from_child(&self.child);
        if self.child.kill().is_ok() && matches!(self.child.try_wait(), Ok(None)) {
            // It ends at its own pace, and nothing else reads its status.
            let _ = std::thread::Builder::new().name("tiffany-bury".into()).spawn(move || {
                let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
            });
        }
    }
}

/// Everything that a child writes to a pipe; nothing if there is none.
async fn collect(
    from: Option<impl crate::io::AsyncRead>,
    at: &'static Location<'static>,
) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(from) = from {
        crate::io::read_to_end(&from, &mut bytes, at).await?;
    }
    Ok(bytes)
}

macro_rules! pipe_of_child {
    ($(#[$doc:meta])* $name:ident, $end:ty, $assume:expr) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name {
            source: Source<$end>,
        }

        impl $name {
            fn from_std(pipe: impl Into<OwnedFd>) -> io::Result<$name> {
                let pipe = <$end>::from(pipe.into());
                set_nonblocking(&pipe)?;
                Ok($name { source: Source::assuming(pipe, $assume)? })
            }
        }

        has_descriptor!($name);
    };
}

pipe_of_child! {
    /// The standard input of a child. Dropping it closes it.
    ChildStdin, io::PipeWriter, Assume::Writable
}
pipe_of_child! {
    /// The standard output of a child.
    ChildStdout, io::PipeReader, Assume::Nothing
}
pipe_of_child! {
    /// The standard error of a child.
    ChildStderr, io::PipeReader, Assume::Nothing
}

stream_writes!(ChildStdin);
stream_reads!(ChildStdout);
stream_reads!(ChildStderr);
