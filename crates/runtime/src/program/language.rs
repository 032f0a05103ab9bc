//! What a language other than Rust tells of the durable runs whose code is in it: where their functions are, what their code
//! depends on, how their lines read. It knows no log and no run.

use tiffany_kernel::{BoxCoroutine, Frame, Site, TaskError, Time, Uuid, Value};

use crate::watchdog::Interrupter;
use tiffany_records::request::Function;

/// What a function is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// To start a run, by the program itself.
    New,
    /// To start a run that somebody else asks for: what it is given comes from outside.
    Asked,
    /// To bring one back, or to let it begin anew.
    Again,
}

/// Which code a run takes at a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Runs that come here for the first time do something more.
    New,
    /// Runs that have been here do something more.
    Old,
    /// The first take the new code, and the others the old.
    Both,
}

/// The whole contract between durable runs and the language of their code.
pub trait Language {
    /// The root of a run of a function that is not registered, made out of its input; `None` if there is no such function.
    fn start(
        &self,
        function: &str,
        input: &str,
        wanted: Wanted,
    ) -> Option<Result<BoxCoroutine, TaskError>>;

    /// Whether runs of a function are state machines that can be written down.
    fn is_agent(&self, function: &str) -> bool {
        let _ = function;
        false
    }

    /// A state machine of this kind, made again out of its state; if it slept, it sleeps until then. `None` if there is no such kind.
    fn restore(
        &self,
        kind: &str,
        state: &str,
        until: Option<Time>,
    ) -> Option<Result<BoxCoroutine, TaskError>> {
        let _ = (kind, state, until);
        None
    }

    /// An error if a value that its codec made cannot be read here, because its class is not there, say.
    fn check(&self, value: &str) -> Result<(), TaskError> {
        let _ = value;
        Ok(())
    }

    /// What it is called, in a word.
    fn name(&self) -> &'static str;

    /// The functions that runs can be started from, with what is known of them.
    fn functions(&self) -> Vec<Function>;

    /// Whether there is such a function.
    fn has(&self, function: &str) -> bool;

    /// What the first record of a run notes of the surroundings that its code may depend on, as JSON.
    fn note(&self) -> String;

    /// Why code that began in these surroundings may do something else in the present ones.
    fn suspects(&self, note: &str) -> Option<String>;

    /// How a line of the program reads now.
    fn source(&self, at: &Site) -> Option<String>;

    /// The lines by which a run takes the new way at a change, or the old one.
    fn patched(&self, id: &str, way: Way) -> Vec<String>;

    /// A value of it, as people read it; `None` if it is none of its own.
    fn shown(&self, value: &Value) -> Option<String>;

    /// The functions of the task that an error ended, those it came through, the innermost last; none if it is not known.
    fn frames(&self, error: &TaskError) -> Vec<Frame>;

    /// Opens a debugger where an error was raised in a task; `false` if that cannot be.
    fn post_mortem(&self, error: &TaskError) -> bool;

    /// How a line of a file read at this time, if it can be known that the file is still the same.
    fn source_then(&self, file: &str, line: u32, then: Time) -> Option<String> {
        let _ = (file, line, then);
        None
    }

    /// What interrupts code on the present thread, if that can be done.
    fn interrupter(&self) -> Option<Interrupter> {
        None
    }

    /// What interrupts code on the thread that its async steps share, if that can be done.
    fn step_interrupter(&self) -> Option<Interrupter> {
        None
    }

    /// A run cannot go on.
    fn paused(&self, run: Uuid, error: &TaskError);
}
