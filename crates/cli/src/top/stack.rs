//! Finds where the tasks of a run are in their code: a replay in a separate process, because it
//! executes the code of the run. Only a program that has this code can do it.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, Sender, channel};

use serde_json::Value;
use tiffany::Uuid;
use tiffany_daemon::Relaunch;

/// The result of a replay.
pub(super) struct Stack {
    pub(super) run: Uuid,
    /// The stacks of all tasks, or why there are none.
    pub(super) told: Result<Value, String>,
}

/// Requests stacks without waiting for them.
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

    /// Starts a replay; its process ends by itself.
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
            // The screen may have been closed.
            drop(send.send(Stack { run, told }));
        };
        drop(std::thread::Builder::new().name("tiffany-stack".into()).spawn(asks));
    }

    pub(super) fn take(&self) -> Option<Stack> {
        self.come.try_recv().ok()
    }
}
