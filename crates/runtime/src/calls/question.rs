//! Questions that a run answers from memory, between two turns of its tasks. They are not recorded,
//! so an answer must not change anything.

use std::fmt::{self, Display};
use std::panic::{AssertUnwindSafe, Location};
use std::rc::{Rc, Weak};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tiffany_kernel::{ErrorKind, RunId, TaskError};

use crate::calls::context;
use crate::host::panics;
use crate::host::panics::panic_error;
use crate::host::questions::{Answer, Answers, Questions};
use tiffany_records::value::{decode, serialize};

/// While this value lives, its run answers the question.
#[must_use = "the run answers only while this lives: keep it in a variable"]
pub struct Answering {
    run: RunId,
    name: Rc<str>,
    answers: Weak<Answer>,
}

/// Has this run answer a question of this name from the state of its tasks, until the returned
/// value is dropped. The question may have an input. A second answer under the same name replaces
/// the first.
///
/// The closure is called between two turns. It must make no calls and change nothing, because it is
/// not called again when the run is resumed. The answer is sent when everything that it can depend
/// on is durable.
///
/// ```
/// use std::cell::RefCell;
/// use std::rc::Rc;
/// use tiffany::durable::{on_question, receive};
/// use tiffany::{Runtime, TaskError};
///
/// async fn basket(_: ()) -> Result<usize, TaskError> {
///     let items = Rc::new(RefCell::new(Vec::<String>::new()));
///     let seen = Rc::clone(&items);
///     let _answering = on_question("items", move |(): ()| Ok::<_, String>(seen.borrow().clone()))?;
///     while let Some(item) = receive::<Option<String>>("item").await? {
///         items.borrow_mut().push(item);
///     }
///     Ok(items.borrow().len())
/// }
///
/// # let dir = std::env::temp_dir().join(format!("tiffany-question-{}", std::process::id()));
/// let mut runtime = Runtime::builder().log_dir(&dir).register("basket", basket).build()?;
/// let run = runtime.submit::<usize>("basket", "basket-1", &())?;
/// runtime.send(&run, "item", &"tea")?;
/// let items: Vec<String> = runtime.question(&run, "items", &())?;
/// assert_eq!(items, ["tea"]);
/// # drop(runtime);
/// # std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), tiffany::RunError>(())
/// ```
#[track_caller]
pub fn on_question<I, O, E>(
    name: &str,
    answer: impl Fn(I) -> Result<O, E> + 'static,
) -> Result<Answering, TaskError>
where
    I: DeserializeOwned,
    O: Serialize,
    E: Display,
{
    answer_json(name, move |input| {
        let output =
            answer(decode(input)?).map_err(|error| TaskError::failed(error.to_string()))?;
        serialize(&output)
    })
}

/// Registers an answer whose input and output are JSON.
#[track_caller]
pub(crate) fn answer_json(
    name: &str,
    answer: impl Fn(&str) -> Result<String, TaskError> + 'static,
) -> Result<Answering, TaskError> {
    let at = Location::caller();
    let answers: Answers = Rc::new(answer);
    let name: Rc<str> = name.into();
    let known = context::with(|context| {
        let (task, host) = (context.port.task()?, context.host()?);
        let mut questions = host.questions.all();
        let before =
            questions.entry(task.run).or_default().insert(Rc::clone(&name), Rc::clone(&answers));
        drop(questions);
        // Dropping what the closure holds may run code.
        drop(before);
        Some(task.run)
    });
    let Some(run) = known else {
        let message = "`on_question` was called outside a task";
        let mut error = TaskError::new(ErrorKind::OutsideTask, message);
        error.add_call("on_question", at);
        return Err(error);
    };
    Ok(Answering { run, name, answers: Rc::downgrade(&answers) })
}

impl Drop for Answering {
    fn drop(&mut self) {
        // The runtime of the run may be gone already.
        let Some(host) = context::with(|context| context.host()) else { return };
        let mut questions = host.questions.all();
        let Some(of_run) = questions.get_mut(&self.run) else { return };
        // Another closure may have replaced this one.
        let is_this = of_run
            .get(&self.name)
            .is_some_and(|answers| std::ptr::addr_eq(Rc::as_ptr(answers), self.answers.as_ptr()));
        let gone = if is_this { of_run.remove(&self.name) } else { None };
        drop(questions);
        drop(gone);
    }
}

impl fmt::Debug for Answering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Answering({})", self.name)
    }
}

/// Asks a run.
pub(crate) fn ask(
    questions: &Questions,
    run: RunId,
    name: &str,
    input: &str,
) -> Result<String, TaskError> {
    let of_run = questions.of_run(run);
    let Some(answers) = of_run.get(name) else {
        let others: Vec<&str> = of_run.keys().map(|name| &**name).collect();
        let others = match others.is_empty() {
            true => String::new(),
            false => format!(", but `{}`", others.join("`, `")),
        };
        let message = format!("the run answers no question `{name}` at present{others}");
        return Err(TaskError::new(ErrorKind::NoSuchQuestion, message));
    };
    let answered = || {
        let answered = panics::noting(AssertUnwindSafe(|| answers(input)));
        answered.unwrap_or_else(|payload| {
            Err(panic_error(payload, &format!("what answers `{name}` panicked")))
        })
    };
    let what = || format!("answer to the question `{name}`");
    context::with(|context| context.outside_turns(Some(run), what, answered))
}
