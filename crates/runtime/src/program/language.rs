//! The interface of a language other than Rust whose code runs durably: where its functions are,
//! what its code depends on, and what its source lines contain. It knows no log and no run.

use tiffany_kernel::{BoxCoroutine, Frame, Site, TaskError, Time, Uuid, Value};

use crate::watchdog::Interrupter;
use tiffany_records::request::Function;

/// What a function is needed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// To start a run, by the program itself.
    New,
    /// To start a run on request: its input comes from outside.
    Asked,
    /// To resume a run, or to start it again with `continue_as`.
    Again,
}

/// Which runs run which code at a change to the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Runs that reach the change for the first time do something more.
    New,
    /// Runs that had passed it before the change do something more.
    Old,
    /// The former run the new code, and the latter the old code.
    Both,
}

/// The complete interface between durable runs and the language of their code.
pub trait Language {
    /// Builds the root of a run of a function that is not registered from its input; `None` if
    /// there is no such function.
    fn start(
        &self,
        function: &str,
        input: &str,
        wanted: Wanted,
    ) -> Option<Result<BoxCoroutine, TaskError>>;

    /// Whether runs of a function are serializable state machines.
    fn is_agent(&self, function: &str) -> bool {
        let _ = function;
        false
    }

    /// Restores a state machine of this type from its state; if it was asleep, it sleeps until
    /// `until`. `None` if there is no such type.
    fn restore(
        &self,
        kind: &str,
        state: &str,
        until: Option<Time>,
    ) -> Option<Result<BoxCoroutine, TaskError>> {
        let _ = (kind, state, until);
        None
    }

    /// Fails if a value that its codec made cannot be read here, because its class is missing, for
    /// example.
    fn check(&self, value: &str) -> Result<(), TaskError> {
        let _ = value;
        Ok(())
    }

    /// The language's name, one word.
    fn name(&self) -> &'static str;

    /// The functions that runs can be started from, with their descriptions.
    fn functions(&self) -> Vec<Function>;

    /// Whether the language has a function with this name.
    fn has(&self, function: &str) -> bool;

    /// The environment that a run's code may depend on, for the first record of the run, as JSON.
    fn note(&self) -> String;

    /// Why code that began in the environment of `note` may behave differently in the present one.
    fn suspects(&self, note: &str) -> Option<String>;

    /// The present text of a source line.
    fn source(&self, at: &Site) -> Option<String>;

    /// The source lines by which a run takes the new branch of a change, or the old one.
    fn patched(&self, id: &str, way: Way) -> Vec<String>;

    /// Formats a value of the language for display; `None` if it is not one of its own.
    fn shown(&self, value: &Value) -> Option<String>;

    /// The call stack of the task that an error ended, only functions that the error passed
    /// through, the innermost last; empty if it is not known.
    fn frames(&self, error: &TaskError) -> Vec<Frame>;

    /// Opens a debugger where an error was raised in a task; returns `false` if that is not
    /// possible.
    fn post_mortem(&self, error: &TaskError) -> bool;

    /// The text of a source line at this time, if it is certain that the file has not changed
    /// since.
    fn source_then(&self, file: &str, line: u32, then: Time) -> Option<String> {
        let _ = (file, line, then);
        None
    }

    /// An interrupter for code on the present thread, if the language can interrupt code.
    fn interrupter(&self) -> Option<Interrupter> {
        None
    }

    /// An interrupter for code on the thread that its async steps share, if the language can
    /// interrupt code.
    fn step_interrupter(&self) -> Option<Interrupter> {
        None
    }

    /// Called when a run is paused.
    fn paused(&self, run: Uuid, error: &TaskError);
}
