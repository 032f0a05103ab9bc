//! The thread that calls the audit hook for changes through the socket. Writing an audit can take
//! long, and the thread of the socket serves all clients. A change begins once its intent is noted,
//! in the order of the requests.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use super::server::Reply;
use crate::control::audit_hook;
use crate::control::audit_hook::{AuditHook, Finish};
use crate::host::inbox::Inbox;
use crate::host::tell::Tell;
use tiffany_records::request::{Outcome, Request};

/// What the thread does.
pub(super) enum Job {
    /// Notes what a user is about to change, and then lets the runtime do it.
    Begin(u32, Request, Reply),
    /// Notes the outcome, and then answers the client.
    Finish(Finish, Outcome, Reply),
    End,
}

pub(super) struct AuditThread {
    jobs: Sender<Job>,
    thread: JoinHandle<()>,
}

impl AuditThread {
    pub(super) fn start(
        audit_hook: Arc<dyn AuditHook>,
        inbox: Arc<Inbox>,
    ) -> io::Result<AuditThread> {
        let (jobs, asked) = channel();
        let tells = jobs.clone();
        let thread = std::thread::Builder::new()
            .name("tiffany-audit".into())
            .spawn(move || work(&*audit_hook, &inbox, (&tells, &asked)))?;
        Ok(AuditThread { jobs, thread })
    }

    /// Begins a change.
    pub(super) fn begin(&self, uid: u32, request: Request, reply: Reply) {
        // A reply that is dropped tells the client that there will be no answer.
        drop(self.jobs.send(Job::Begin(uid, request, reply)));
    }

    /// Ends the thread when it has done all of its work.
    pub(super) fn end(self) {
        if self.jobs.send(Job::End).is_ok() {
            drop(self.thread.join());
        }
    }
}

fn work(audit_hook: &dyn AuditHook, inbox: &Inbox, (tells, asked): (&Sender<Job>, &Receiver<Job>)) {
    for job in asked {
        match job {
            Job::Begin(uid, request, reply) => {
                match audit_hook::begin(Some(audit_hook), uid, &request) {
                    Ok(finish) => {
                        let reply = reply.noted_by(finish, tells.clone());
                        let tell = Tell::by(move |answer| reply.tell(answer));
                        inbox.ask(request, tell);
                    }
                    Err(error) => reply.tell(Err(error)),
                }
            }
            Job::Finish(finish, answer, reply) => {
                reply.tell(audit_hook::finish(Some(finish), answer));
            }
            Job::End => return,
        }
    }
}
