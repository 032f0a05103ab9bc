//! The log on disk: lines of many runs become durable together, and end up in one readable file per
//! run. It knows nothing of tasks or the meaning of a record, and the kernel calls nothing here.
//!
//! A [`Chain`] and a [`Batch`] make a line. The committing half of a [`Writer`] (or of a
//! [`LogThread`]) writes the batch as one block of the commit log and syncs it; the applying half
//! then copies the lines to the files of their runs. [`Writer::open`] repairs what a crash left
//! behind, and reports it in a [`Recovery`]. [`RunReader`] reads one run, and [`View`] reads all of
//! them without changing anything. All access goes through [`Disk`], whose simulated twin for tests
//! is [`sim::SimDisk`].
//!
//! The book's chapter "WAL format" describes the bytes, their order, and the assumptions about the
//! medium.

mod applier;
mod background;
pub mod backup;
mod batch;
mod blob;
mod blob_gc;
mod blob_total;
mod block;
mod committer;
mod current_turn;
pub mod descriptors;
mod disk;
mod error;
mod follow;
mod growth;
mod handles;
mod index;
mod json;
mod leftovers;
mod line;
mod lock;
mod log_reader;
pub mod not_inherited;
mod observe;
mod open_tasks;
mod overlay;
mod read;
mod reconcile;
mod recover;
mod redacted;
mod redactor;
mod regular_file;
mod removals;
mod retry_disk;
mod run_reader;
mod scan;
mod segments;
mod settings;
pub mod sim;
mod stamp;
pub mod sync;
mod thread;
mod turn_marker;
mod view;
mod writer;

pub use crate::blob_gc::Collected;
pub use crate::blob_gc::names as blob_names;
pub use batch::{BLOB_LIMIT, Batch, RunEnd};
pub use blob::BlobHash;
pub use blob_total::BlobTotal;
pub use current_turn::CurrentTurn;
pub use disk::{Barrier, DirLock, Disk, DiskFile, Locking, OpenMode, RealDisk};
pub use error::LogError;
pub use follow::Follower;
pub use follow::open_generation;
pub use growth::Followers;
pub use growth::Growth;
pub use index::{RunEntry, RunState};
pub use json::Fields;
pub use json::{end_of_value, parse_base64, parse_string, push_base64, push_string};
pub use line::{Chain, LINE_VERSION, Line, RecordType};
pub use lock::LockTerm;
pub use lock::let_go_soon;
pub use lock::{Holder, file_holder, holder, lasting_holder};
pub use log_reader::{LogFiles, LogReader};
pub use observe::{Commit, CommitObserver};
pub use read::{BlobForm, Broken, Checker, Flaw, LogLine, Payload, Reader};
pub use recover::{Cut, Recovery};
pub use redacted::{RuleMark, is_redacted, mark_redacted, rules_of};
pub use redactor::Redactor;
pub use regular_file::{NotRegular, SymbolicLink, open_regular};
pub use run_reader::{RunReader, read_blob};
pub use scan::TornBlock;
pub use settings::{Settings, SyncWhen};
pub use stamp::Stamp;
pub use stamp::to_the_second;
pub use thread::{LogThread, Notice, Ticket};
pub use turn_marker::{LongTurn, mark_turn, marked_turn, unmark_turn};
pub use view::RunFile;
pub use view::View;
pub use writer::{Durable, Writer};
