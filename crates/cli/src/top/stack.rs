//! Where the tasks of a run stand in their code: a replay of it, in a process of its own, because it runs the code of the run. Only a program that has that code can.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, Sender, channel};

use serde_json::Value;
use tiffany::Uuid;
use tiffany_daemon::Relaunch;

/// What came of it.
pub(super) struct Stack {
    pub(super) run: Uuid,
    /// What the replay tells of each task, or why it cannot.
    pub(super) told: Result<Value, String>,
}

/// Asks for stacks, and waits for none.
pub(super) struct Stacks {
    relaunch: Relaunch,
    dir: PathBuf,
    send: Sender<Stack>,
    come: Receiver<Stack>,
}

impl Stacks {
    pub(super) fn new(relaunch: Relaunch, dir: PathBuf) -> Stacks {
        let (send, come) = channel();
        Stacks { relaunch, dir, send, come }
    }

    /// Begins to find out; the process ends by itself.
    pub(super) fn ask(&self, run: Uuid) {
        let mut command = self.relaunch.command();
        command.arg("--dir").arg(&self.dir).args(["--json", "replay", &run.to_string(), "--step"]);
        command.stdin(Stdio::null());
        let send = self.send.clone();
        let asks = move || {
            let told = command.output().map_err(|error| error.to_string()).and_then(|done| {
                let text = if done.status.success() { &done.stdout } else { &done.stderr };
                let told: Value = serde_json::from_slice(text).unwrap_or(Value::Null);
                match (done.status.success(), told["error"]["message"].as_str()) {
                    (true, _) => Ok(told),
                    (false, Some(message)) => Err(message.to_owned()),
                    (false, None) => Err(String::from_utf8_lossy(text).trim().to_owned()),
                }
            });
            // The screen may be gone.
            drop(send.send(Stack { run, told }));
        };
        drop(std::thread::Builder::new().name("tiffany-stack".into()).spawn(asks));
    }

    pub(super) fn take(&self) -> Option<Stack> {
        self.come.try_recv().ok()
    }
}
