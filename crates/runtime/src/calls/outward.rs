//! The key of a step in the forms that other systems take: a request header, and the environment of
//! a program.

use std::ffi::OsStr;
use std::process::Command;

use crate::host::attempt::Attempt;

/// The environment variable with the key of the attempt.
const KEY: &str = "TIFFANY_IDEMPOTENCY_KEY";
const ATTEMPT: &str = "TIFFANY_ATTEMPT";

impl Attempt {
    /// The request header that tells a service with idempotency keys that this is the same request
    /// as in an earlier attempt.
    ///
    /// ```
    /// use tiffany::durable::step_with;
    ///
    /// let request: String = tiffany::try_run(async {
    ///     step_with("pay", |attempt| {
    ///         let (name, value) = attempt.idempotency_header();
    ///         Ok::<_, String>(format!("POST /pay HTTP/1.1\r\n{name}: {value}\r\n\r\n"))
    ///     })
    ///     .await
    /// })?;
    /// assert!(request.contains("Idempotency-Key: "));
    /// # Ok::<(), tiffany::RunError>(())
    /// ```
    pub fn idempotency_header(&self) -> (&'static str, &str) {
        ("Idempotency-Key", self.key())
    }

    /// A program with the key in its environment as `TIFFANY_IDEMPOTENCY_KEY` and the number of the
    /// attempt as `TIFFANY_ATTEMPT`.
    ///
    /// ```
    /// use tiffany::durable::{StepError, step_with};
    ///
    /// let said: String = tiffany::try_run(async {
    ///     step_with("say", |attempt| {
    ///         let script = "echo attempt $TIFFANY_ATTEMPT at $TIFFANY_IDEMPOTENCY_KEY";
    ///         let output = attempt.command("sh").args(["-c", script]).output()?;
    ///         String::from_utf8(output.stdout).map_err(StepError::give_up)
    ///     })
    ///     .await
    /// })?;
    /// assert!(said.starts_with("attempt 1 at "));
    /// # Ok::<(), tiffany::RunError>(())
    /// ```
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env(KEY, self.key()).env(ATTEMPT, self.number().to_string());
        command
    }
}
