//! The runs that clients see after the log has failed. Memory is ahead of the log then: it may have
//! a change that was refused, and only acknowledged changes may be reported. So the answers come
//! from the files, read on a separate thread.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::control::offline::Offline;
use crate::host::tell::Tell;
use crate::runtime::durable::Durable;
use crate::runtime::run_list::no_thread;
use tiffany_log::Disk;
use tiffany_records::request::Request;

/// The thread that reads the files. It ends when this is dropped.
pub(crate) struct FailedLog(Sender<(Request, Tell)>);

impl Durable {
    /// Answers from the files if the log has failed and the request is about the log. Otherwise
    /// both arguments are returned.
    pub(crate) fn ask_failed_log(
        &mut self,
        request: Request,
        tell: Tell,
    ) -> Option<(Request, Tell)> {
        if self.failed.is_none() || !request.looks_at_log() {
            return Some((request, tell));
        }
        if self.log.is_inline() {
            let looked = Offline::look(Arc::clone(&self.disk), &self.root);
            tell.tell(looked.and_then(|mut log| log.ask(request)));
            return None;
        }
        if self.failed_log.is_none() {
            match FailedLog::start(Arc::clone(&self.disk), self.root.clone()) {
                Ok(thread) => self.failed_log = Some(thread),
                Err(error) => {
                    tell.tell(Err(no_thread("a look at the log", &error)));
                    return None;
                }
            }
        }
        if let Some(FailedLog(asks)) = &self.failed_log {
            // If the thread is gone, dropping the request informs the client.
            drop(asks.send((request, tell)));
        }
        None
    }
}

impl FailedLog {
    fn start(disk: Arc<dyn Disk>, root: PathBuf) -> std::io::Result<FailedLog> {
        let (asks, asked) = channel();
        std::thread::Builder::new()
            .name("tiffany-failed".into())
            .spawn(move || answer(&disk, &root, &asked))?;
        Ok(FailedLog(asks))
    }
}

fn answer(disk: &Arc<dyn Disk>, root: &std::path::Path, asked: &Receiver<(Request, Tell)>) {
    // Nothing is written any more, so the files are read once; a read that fails is repeated.
    let mut log = None;
    for (request, tell) in asked {
        let looked = match log.take() {
            Some(log) => Ok(log),
            None => Offline::look(Arc::clone(disk), root),
        };
        tell.tell(looked.and_then(|looked| log.insert(looked).ask(request)));
    }
}
