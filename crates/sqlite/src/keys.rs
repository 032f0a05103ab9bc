//! The table of keys: committed attempts and their results. Nothing here begins or ends a
//! transaction.

use rusqlite::{Connection, OptionalExtension, Transaction, params};
use tiffany::durable::{Attempt, StepError};
use tiffany::{ErrorKind, TaskError, Uuid};

use crate::Sqlite;

impl Sqlite {
    /// Returns the name of the table, quoted for SQL.
    fn quoted(&self) -> String {
        format!("\"{}\"", self.shared.settings.table.replace('"', "\"\""))
    }

    pub(crate) fn make_table(&self, connection: &Connection) -> rusqlite::Result<()> {
        let table = self.quoted();
        connection.execute_batch(&format!(
            "CREATE TABLE IF NOT EXISTS {table} (
                key TEXT PRIMARY KEY,
                run TEXT NOT NULL,
                birth TEXT NOT NULL,
                step TEXT NOT NULL,
                result TEXT NOT NULL
            ) STRICT, WITHOUT ROWID"
        ))
    }

    /// Returns the result of a committed attempt with this key; `None` if there is none. Fails if
    /// the key belongs to another run.
    pub(crate) fn look_up(
        &self,
        transaction: &Transaction<'_>,
        attempt: &Attempt,
    ) -> Result<Option<String>, StepError> {
        let table = self.quoted();
        let select = format!("SELECT birth, step, result FROM {table} WHERE key = ?1");
        let mut statement = transaction.prepare_cached(&select)?;
        let found = statement
            .query_row([attempt.key()], |row| {
                Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?))
            })
            .optional()?;
        let Some((birth, step, result)) = found else { return Ok(None) };
        if birth == attempt.birth().to_string() && step == attempt.step_name() {
            return Ok(Some(result));
        }
        let (key, table) = (attempt.key(), &self.shared.settings.table);
        let message = format!(
            "the key {key} in the table `{table}` belongs to the step `{step}` of another run of this id"
        );
        Err(StepError::last(TaskError::new(ErrorKind::OtherKey, message)))
    }

    pub(crate) fn write(
        &self,
        transaction: &Transaction<'_>,
        attempt: &Attempt,
        json: &str,
    ) -> rusqlite::Result<()> {
        let table = self.quoted();
        let insert = format!(
            "INSERT INTO {table} (key, run, birth, step, result) VALUES (?1, ?2, ?3, ?4, ?5)"
        );
        let (key, birth) = (attempt.key(), attempt.birth().to_string());
        let run = key.split('/').next().unwrap_or(key);
        let mut statement = transaction.prepare_cached(&insert)?;
        statement.execute(params![key, run, birth, attempt.step_name(), json])?;
        Ok(())
    }

    /// Removes the keys of all runs for which `is_over` returns true, and returns their number.
    /// This is safe at any time with [`Runtime::is_finished`](tiffany::Runtime::is_finished),
    /// because a run that has ended in the log does not repeat any step.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("tiffany-sqlite-forget-{}", std::process::id()));
    /// # std::fs::create_dir_all(&dir)?;
    /// use tiffany::Runtime;
    /// use tiffany_sqlite::Sqlite;
    ///
    /// let bank = Sqlite::new(dir.join("bank.db"));
    /// let runtime = Runtime::builder().log_dir(dir.join("log")).build()?;
    /// assert_eq!(bank.forget(|run| runtime.is_finished(run))?, 0);
    /// # drop(runtime);
    /// # std::fs::remove_dir_all(&dir)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn forget(&self, is_over: impl Fn(Uuid) -> bool) -> rusqlite::Result<usize> {
        let connection = self.connection()?;
        let table = self.quoted();
        let runs: Vec<String> = connection
            .prepare(&format!("SELECT DISTINCT run FROM {table}"))?
            .query_map([], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        let mut forgotten = 0;
        for run in runs.iter().filter(|run| Uuid::parse(run).is_some_and(&is_over)) {
            let delete = format!("DELETE FROM {table} WHERE run = ?1");
            forgotten += connection.execute(&delete, [run])?;
        }
        self.shared.idle().push(connection);
        Ok(forgotten)
    }
}
