//! Transactional steps in PostgreSQL. The changes that a step of a durable run makes to the
//! database, its key and its result are written in one transaction, so the step happens exactly
//! once, whenever the process, the server or the connection between them dies.
//!
//! ```no_run
//! use tiffany::{Runtime, TaskError};
//! use tiffany_postgres::Postgres;
//!
//! let bank = Postgres::new("host=/run/postgresql user=bank dbname=bank")?;
//! let pay = move |cents: i64| {
//!     let bank = bank.clone();
//!     async move {
//!         let left: i64 = bank
//!             .step("take", move |transaction, _| {
//!                 let take = "UPDATE account SET cents = cents - $1 RETURNING cents";
//!                 transaction.query_one(take, &[&cents]).map(|row| row.get(0))
//!             })
//!             .input(&cents)
//!             .await?;
//!         Ok::<i64, TaskError>(left)
//!     }
//! };
//! let mut runtime = Runtime::builder().log_dir("log").register("pay", pay).build()?;
//! let run = runtime.submit::<i64>("pay", "bill-17", &120)?;
//! println!("{} cents are left", runtime.wait_for(&run)?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! An attempt begins a transaction and claims its key in a table that this crate creates if it does
//! not exist. If another attempt has the key, it waits for that one to end; if that one was
//! committed, its result is returned and the work is not repeated. Otherwise the work is done, its
//! result is stored with the key, and both are committed together. A connection that is lost during
//! `COMMIT` leaves the step in doubt until the next attempt finds out, so give such steps a
//! [policy](tiffany::durable::Step::retry).

mod keys;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use postgres;
use postgres::{Client, Config, Error, IsolationLevel, NoTls, Transaction};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tiffany::durable::{Attempt, Step, StepError, step_transactional};

/// A database in which steps of durable runs can write. Clones are cheap, and share their
/// connections.
#[derive(Clone)]
pub struct Postgres {
    shared: Arc<Shared>,
}

struct Shared {
    connect: Connect,
    settings: Settings,
    has_table: AtomicBool,
    idle: Mutex<Vec<Client>>,
}

impl Shared {
    fn idle(&self) -> MutexGuard<'_, Vec<Client>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Connect = Arc<dyn Fn() -> Result<Client, Error> + Send + Sync>;

type OnStage = Arc<dyn Fn(Stage, &Attempt) + Send + Sync>;

#[derive(Clone)]
struct Settings {
    table: String,
    isolation: Option<IsolationLevel>,
    on_stage: Option<OnStage>,
}

/// The progress of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The transaction was begun.
    Begun,
    /// The key was claimed, so that no other attempt can have it.
    Claimed,
    /// The work was done.
    Done,
    /// The result was written.
    Written,
    /// The transaction was committed.
    Committed,
}

impl Postgres {
    /// Uses the database with these connection parameters, in the format of `psql`, without TLS. It
    /// connects when a step needs it for the first time.
    pub fn new(how: &str) -> Result<Postgres, Error> {
        let config: Config = how.parse()?;
        Ok(Postgres::connecting(move || config.connect(NoTls)))
    }

    /// Uses the database that this function connects to, for example with TLS.
    pub fn connecting(
        connect: impl Fn() -> Result<Client, Error> + Send + Sync + 'static,
    ) -> Postgres {
        let settings = Settings { table: "tiffany_steps".into(), isolation: None, on_stage: None };
        Postgres::with(Arc::new(connect), settings)
    }

    fn with(connect: Connect, settings: Settings) -> Postgres {
        let (has_table, idle) = (AtomicBool::new(false), Mutex::default());
        Postgres { shared: Arc::new(Shared { connect, settings, has_table, idle }) }
    }

    fn set(self, set: impl FnOnce(&mut Settings)) -> Postgres {
        let mut settings = self.shared.settings.clone();
        set(&mut settings);
        Postgres::with(Arc::clone(&self.shared.connect), settings)
    }

    /// Sets the name of the table for keys and results; the default is `tiffany_steps`. The part
    /// before a dot is the schema, which must exist.
    pub fn table(self, name: &str) -> Postgres {
        self.set(|settings| settings.table = name.into())
    }

    /// Sets the isolation level of transactions; the default is that of the server.
    pub fn isolation(self, level: IsolationLevel) -> Postgres {
        self.set(|settings| settings.isolation = Some(level))
    }

    /// Sets a function that is called between the stages of each attempt, for tests that end the
    /// process there.
    pub fn on_stage(self, hook: impl Fn(Stage, &Attempt) + Send + Sync + 'static) -> Postgres {
        self.set(|settings| settings.on_stage = Some(Arc::new(hook)))
    }

    /// Makes a step whose work is done in a transaction, exactly once. If the work fails, or the
    /// server aborts the transaction in favor of another one, the transaction is rolled back, and
    /// the step is repeated according to its [policy](Step::retry). The work must not end the
    /// transaction itself.
    ///
    /// In a run that is not durable, the key is a new one each time.
    #[track_caller]
    pub fn step<T, E, F>(&self, name: &'static str, work: F) -> Step<T>
    where
        T: Serialize + DeserializeOwned + 'static,
        E: Into<StepError>,
        F: Fn(&mut Transaction<'_>, &Attempt) -> Result<T, E> + Send + Sync + 'static,
    {
        let this = self.clone();
        step_transactional(name, move |attempt| {
            let mut client = this.client().map_err(told)?;
            let tried = this.attempt(&mut client, &attempt, &work);
            this.give_back(client);
            tried
        })
    }

    fn attempt<T, E>(
        &self,
        client: &mut Client,
        attempt: &Attempt,
        work: impl Fn(&mut Transaction<'_>, &Attempt) -> Result<T, E>,
    ) -> Result<String, StepError>
    where
        T: Serialize,
        E: Into<StepError>,
    {
        let mut begin = client.build_transaction();
        if let Some(level) = self.shared.settings.isolation {
            begin = begin.isolation_level(level);
        }
        let mut transaction = begin.start().map_err(told)?;
        self.reached(Stage::Begun, attempt);
        if let Some(result) = self.claim(&mut transaction, attempt)? {
            return Ok(result);
        }
        self.reached(Stage::Claimed, attempt);
        let value = work(&mut transaction, attempt).map_err(Into::into)?;
        self.reached(Stage::Done, attempt);
        let json = attempt.to_json(&value)?;
        self.write(&mut transaction, attempt, &json).map_err(told)?;
        self.reached(Stage::Written, attempt);
        if attempt.is_given_up() {
            return Err("no task waits for it any more, so it was undone".into());
        }
        transaction.commit().map_err(|error| match error.as_db_error() {
            // The server reports that it did not happen.
            Some(_) => told(error),
            None => StepError::in_doubt(format!("the connection was lost during COMMIT: {error}")),
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
    fn client(&self) -> Result<Client, Error> {
        let shared = &self.shared;
        let idle = || shared.idle().pop();
        while let Some(client) = idle() {
            if !client.is_closed() {
                return Ok(client);
            }
        }
        let mut client = (shared.connect)()?;
        // Whatever the log records as done must survive a crash of the server.
        client.batch_execute(
            "SELECT set_config('synchronous_commit', 'on', false)
             WHERE current_setting('synchronous_commit') IN ('off', 'local')",
        )?;
        if !shared.has_table.load(Ordering::Acquire) {
            self.make_table(&mut client)?;
            shared.has_table.store(true, Ordering::Release);
        }
        Ok(client)
    }

    fn give_back(&self, client: Client) {
        if !client.is_closed() {
            self.shared.idle().push(client);
        }
    }
}

/// Adds the server's message to an error, whose own text leaves it out.
fn told(error: Error) -> StepError {
    match error.as_db_error() {
        Some(said) => StepError::from(format!("{} ({})", said.message(), said.code().code())),
        None => StepError::from(error),
    }
}
