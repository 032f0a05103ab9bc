//! The table of keys: committed attempts and their results. Nothing here begins or ends a step's
//! transaction.

use postgres::error::SqlState;
use postgres::{Client, Error, Transaction};
use tiffany::durable::{Attempt, StepError};
use tiffany::{ErrorKind, TaskError, Uuid};

use crate::{Postgres, told};

impl Postgres {
    /// Returns the name of the table, quoted for SQL.
    fn quoted(&self) -> String {
        let parts = self.shared.settings.table.split('.');
        let quoted: Vec<String> =
            parts.map(|part| format!("\"{}\"", part.replace('"', "\"\""))).collect();
        quoted.join(".")
    }

    pub(crate) fn make_table(&self, client: &mut Client) -> Result<(), Error> {
        let table = self.quoted();
        let made = client.batch_execute(&format!(
            "CREATE TABLE IF NOT EXISTS {table} (
                key text PRIMARY KEY,
                run text NOT NULL,
                birth text NOT NULL,
                step text NOT NULL,
                result text
            )"
        ));
        match made {
            // If two clients create the table at the same time, one of them gets an error that it
            // exists.
            Err(error)
                if matches!(
                    error.code(),
                    Some(&SqlState::UNIQUE_VIOLATION | &SqlState::DUPLICATE_TABLE)
                ) =>
            {
                Ok(())
            }
            made => made,
        }
    }

    /// Claims the key for this transaction, or returns the result of a committed attempt. Waits for
    /// an unfinished attempt that has the key. Fails if the key belongs to another run.
    pub(crate) fn claim(
        &self,
        transaction: &mut Transaction<'_>,
        attempt: &Attempt,
    ) -> Result<Option<String>, StepError> {
        let table = self.quoted();
        let (key, birth) = (attempt.key(), attempt.birth().to_string());
        let run = key.split('/').next().unwrap_or(key);
        let insert = format!(
            "INSERT INTO {table} (key, run, birth, step) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING"
        );
        let claimed = transaction
            .execute(&insert, &[&key, &run, &birth, &attempt.step_name()])
            .map_err(told)?;
        if claimed > 0 {
            return Ok(None);
        }
        let select = format!("SELECT birth, step, result FROM {table} WHERE key = $1");
        let row = transaction.query_one(&select, &[&key]).map_err(told)?;
        let (of, step): (String, String) = (row.get(0), row.get(1));
        if of == birth && step == attempt.step_name() {
            return Ok(row.get(2));
        }
        let table = &self.shared.settings.table;
        let message = format!(
            "the key {key} in the table `{table}` belongs to the step `{step}` of another run of this id"
        );
        Err(StepError::last(TaskError::new(ErrorKind::OtherKey, message)))
    }

    pub(crate) fn write(
        &self,
        transaction: &mut Transaction<'_>,
        attempt: &Attempt,
        json: &str,
    ) -> Result<(), Error> {
        let table = self.quoted();
        let update = format!("UPDATE {table} SET result = $2 WHERE key = $1");
        transaction.execute(&update, &[&attempt.key(), &json]).map(drop)
    }

    /// Removes the keys of all runs for which `is_over` returns true, and returns their number.
    /// This is safe at any time with [`Runtime::is_finished`](tiffany::Runtime::is_finished),
    /// because a run that has ended in the log does not repeat any step.
    ///
    /// ```no_run
    /// use tiffany::Runtime;
    /// use tiffany_postgres::Postgres;
    ///
    /// let bank = Postgres::new("host=/run/postgresql user=bank dbname=bank")?;
    /// let runtime = Runtime::builder().log_dir("log").build()?;
    /// println!("{} keys removed", bank.forget(|run| runtime.is_finished(run))?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn forget(&self, is_over: impl Fn(Uuid) -> bool) -> Result<u64, Error> {
        let mut client = self.client()?;
        let table = self.quoted();
        let rows = client.query(&format!("SELECT DISTINCT run FROM {table}"), &[])?;
        let mut forgotten = 0;
        for row in rows {
            let run: String = row.get(0);
            if Uuid::parse(&run).is_some_and(&is_over) {
                let delete = format!("DELETE FROM {table} WHERE run = $1");
                forgotten += client.execute(&delete, &[&run])?;
            }
        }
        self.give_back(client);
        Ok(forgotten)
    }
}
