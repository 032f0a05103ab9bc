//! Transactional steps in SQLite. The changes that a step of a durable run makes to the database,
//! its key and its result are written in one transaction, so the step happens exactly once,
//! whenever the process dies.
//!
//! ```
//! use tiffany::{Runtime, TaskError};
//! use tiffany_sqlite::Sqlite;
//!
//! # let dir = std::env::temp_dir().join(format!("tiffany-sqlite-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(&dir)?;
//! # let path = dir.join("bank.db");
//! let bank = Sqlite::new(&path);
//! # rusqlite::Connection::open(&path)?.execute_batch("CREATE TABLE account (name TEXT, cents INTEGER); INSERT INTO account VALUES ('ann', 500)")?;
//! let pay = move |cents: i64| {
//!     let bank = bank.clone();
//!     async move {
//!         let left: i64 = bank
//!             .step("take", move |transaction, _| {
//!                 transaction.execute("UPDATE account SET cents = cents - ?1", [cents])?;
//!                 transaction.query_row("SELECT cents FROM account", [], |row| row.get(0))
//!             })
//!             .input(&cents)
//!             .await?;
//!         Ok::<i64, TaskError>(left)
//!     }
//! };
//! let mut runtime = Runtime::builder().log_dir(dir.join("log")).register("pay", pay).build()?;
//! let run = runtime.submit::<i64>("pay", "bill-17", &120)?;
//! assert_eq!(runtime.wait_for(&run)?, 380);
//! # drop(runtime);
//! # std::fs::remove_dir_all(&dir)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! An attempt begins a transaction (`BEGIN IMMEDIATE`) and looks up its key in a table that this
//! crate creates if it does not exist. If the key is there, an earlier attempt was committed: its
//! result is returned and the work is not repeated. Otherwise the work is done, its result is
//! stored with the key, and both are committed together.

mod keys;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use rusqlite;
use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tiffany::durable::{Attempt, Step, StepError, step_transactional};

/// A database in which steps of durable runs can write. Clones are cheap, and share their
/// connections.
#[derive(Clone)]
pub struct Sqlite {
    shared: Arc<Shared>,
}

struct Shared {
    path: PathBuf,
    settings: Settings,
    has_table: AtomicBool,
    idle: Mutex<Vec<Connection>>,
}

impl Shared {
    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type OnConnect = Arc<dyn Fn(&Connection) -> rusqlite::Result<()> + Send + Sync>;
type OnStage = Arc<dyn Fn(Stage, &Attempt) + Send + Sync>;

#[derive(Clone)]
struct Settings {
    table: String,
    busy_timeout: Duration,
    on_connect: Option<OnConnect>,
    on_stage: Option<OnStage>,
}

/// The lowest value of `PRAGMA synchronous` with which a committed transaction is durable in WAL
/// mode, too.
const FULL: i64 = 2;

/// The progress of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The transaction was begun.
    Begun,
    /// The key was looked up, and does not exist.
    LookedUp,
    /// The work was done.
    Done,
    /// The key and the result were written.
    Written,
    /// The transaction was committed.
    Committed,
}

impl Sqlite {
    /// Uses the database in this file. It is opened when a step needs it for the first time, and
    /// created if it does not exist.
    pub fn new(path: impl AsRef<Path>) -> Sqlite {
        let settings = Settings {
            table: "tiffany_steps".into(),
            busy_timeout: Duration::from_secs(5),
            on_connect: None,
            on_stage: None,
        };
        Sqlite::with(path.as_ref().into(), settings)
    }

    fn with(path: PathBuf, settings: Settings) -> Sqlite {
        let (has_table, idle) = (AtomicBool::new(false), Mutex::default());
        Sqlite { shared: Arc::new(Shared { path, settings, has_table, idle }) }
    }

    fn set(self, set: impl FnOnce(&mut Settings)) -> Sqlite {
        let mut settings = self.shared.settings.clone();
        set(&mut settings);
        Sqlite::with(self.shared.path.clone(), settings)
    }

    /// Sets the name of the table for keys and results; the default is `tiffany_steps`.
    pub fn table(self, name: &str) -> Sqlite {
        self.set(|settings| settings.table = name.into())
    }

    /// Sets how long an attempt waits while others write; the default is 5 seconds. After that it
    /// fails, and is repeated according to its policy.
    pub fn busy_timeout(self, timeout: Duration) -> Sqlite {
        self.set(|settings| settings.busy_timeout = timeout)
    }

    /// Sets a function that prepares each new connection, for example with pragmas and functions.
    /// `PRAGMA synchronous` is raised to `FULL` afterwards if it is lower.
    pub fn on_connect(
        self,
        prepare: impl Fn(&Connection) -> rusqlite::Result<()> + Send + Sync + 'static,
    ) -> Sqlite {
        self.set(|settings| settings.on_connect = Some(Arc::new(prepare)))
    }

    /// Sets a function that is called between the stages of each attempt, for tests that end the
    /// process there.
    pub fn on_stage(self, hook: impl Fn(Stage, &Attempt) + Send + Sync + 'static) -> Sqlite {
        self.set(|settings| settings.on_stage = Some(Arc::new(hook)))
    }

    /// Makes a step whose work is done in a transaction, exactly once. If the work fails, the
    /// transaction is rolled back, and the step is repeated according to its [policy](Step::retry).
    /// The work must not end the transaction itself.
    ///
    /// In a run that is not durable, the key is a new one each time.
    #[track_caller]
    pub fn step<T, E, F>(&self, name: &'static str, work: F) -> Step<T>
    where
        T: Serialize + DeserializeOwned + 'static,
        E: Into<StepError>,
        F: Fn(&Transaction<'_>, &Attempt) -> Result<T, E> + Send + Sync + 'static,
    {
        let this = self.clone();
        step_transactional(name, move |attempt| {
            let mut connection = this.connection()?;
            let tried = this.attempt(&mut connection, &attempt, &work);
            // A connection whose transaction is still open, because the COMMIT was refused, is
            // closed.
            if connection.is_autocommit() {
                this.shared.idle().push(connection);
            }
            tried
        })
    }

    fn attempt<T, E>(
        &self,
        connection: &mut Connection,
        attempt: &Attempt,
        work: impl Fn(&Transaction<'_>, &Attempt) -> Result<T, E>,
    ) -> Result<String, StepError>
    where
        T: Serialize,
        E: Into<StepError>,
    {
        // Immediate, because a transaction that reads first and can't upgrade to writing later
        // would fail needlessly.
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        self.reached(Stage::Begun, attempt);
        if let Some(result) = self.look_up(&transaction, attempt)? {
            return Ok(result);
        }
        self.reached(Stage::LookedUp, attempt);
        let value = work(&transaction, attempt).map_err(Into::into)?;
        self.reached(Stage::Done, attempt);
        let json = attempt.to_json(&value)?;
        self.write(&transaction, attempt, &json)?;
        self.reached(Stage::Written, attempt);
        if attempt.is_given_up() {
            return Err("no task waits for it any more, so it was undone".into());
        }
        transaction.commit().map_err(|error| match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StepError::from(error),
            // The system failed during the commit. The next attempt finds out what is in the file.
            _ => StepError::in_doubt(format!("the end of the transaction is not known: {error}")),
        })?;
        self.reached(Stage::Committed, attempt);
        Ok(json)
    }

    fn reached(&self, stage: Stage, attempt: &Attempt) {
        if let Some(hook) = &self.shared.settings.on_stage {
            hook(stage, attempt);
        }
    }

    /// Returns an idle connection, or a new one.
    fn connection(&self) -> rusqlite::Result<Connection> {
        let shared = &self.shared;
        let idle = shared.idle().pop();
        if let Some(connection) = idle {
            return Ok(connection);
        }
        let connection = Connection::open(&shared.path)?;
        connection.busy_timeout(shared.settings.busy_timeout)?;
        if let Some(prepare) = &shared.settings.on_connect {
            prepare(&connection)?;
        }
        // Whatever the log records as done must survive a power failure.
        let synchronous: i64 = connection.query_row("PRAGMA synchronous", [], |row| row.get(0))?;
        if synchronous < FULL {
            connection.pragma_update(None, "synchronous", FULL)?;
        }
        if !shared.has_table.load(Ordering::Acquire) {
            self.make_table(&connection)?;
            shared.has_table.store(true, Ordering::Release);
        }
        Ok(connection)
    }
}

/// Runs the code of the book's page as tests of this crate.
#[cfg(doctest)]
mod book {
    #[doc = include_str!("../../../docs/src/transactions.md")]
    mod transactions {}
}
