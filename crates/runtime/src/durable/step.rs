//! Steps: work that a durable run does in the world. The result is written down; a resumed run gets it from
//! there and does not do the work again.

use std::fmt::Display;
use std::future::IntoFuture;
use std::marker::PhantomData;
use std::panic::Location;
use std::rc::Rc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tiffany_kernel::{EffectWork, SystemCall, TaskError, Value};

use super::json::{Json, Written, encode};
use crate::call::TryCall;
use crate::inbox::Remote;
use crate::pool::Work;

/// Does blocking work outside the run, on a thread of its own, and writes the result down.
///
/// In a durable run the work begins when the call is safe in the log. After a crash before its result is there
/// it is done again; after that, never.
///
/// ```
/// use tiffany::durable::step;
///
/// tiffany::try_run(async {
///     let length: usize = step("measure", || {
///         std::fs::read_to_string("/proc/self/comm").map(|text| text.len())
///     })
///     .await?;
///     assert!(length > 0);
///     Ok::<(), tiffany::TaskError>(())
/// })?;
/// # Ok::<(), tiffany::RunError>(())
/// ```
#[track_caller]
pub fn step<T, E, F>(name: &'static str, work: F) -> Step<T>
where
    T: Serialize + DeserializeOwned + 'static,
    E: Display,
    F: FnOnce() -> Result<T, E> + Send + 'static,
{
    let at = Location::caller();
    let job = Box::new(move || -> Remote {
        let result = match work() {
            Ok(value) => encode(&value),
            Err(error) => Err(TaskError::failed(error.to_string())),
        };
        Box::new(move || result.map(|json| Value::new(Json(json.into()))))
    });
    Step { work: Work { name, written: true, at, job }, about: None, value: PhantomData }
}

/// A step that is about to be made.
#[must_use = "a step does nothing until it is awaited: add `.await`"]
pub struct Step<T> {
    work: Work,
    about: Option<Result<Rc<str>, TaskError>>,
    value: PhantomData<fn() -> T>,
}

impl<T> Step<T> {
    /// What the step is given. It is written down beside the name, and a resumed run that gives it something else
    /// is told so.
    pub fn input(mut self, input: &impl Serialize) -> Step<T> {
        self.about = Some(encode(input).map(|json| format!("{{\"input\":{json}}}").into()));
        self
    }
}

impl<T: DeserializeOwned + 'static> IntoFuture for Step<T> {
    type Output = Result<T, TaskError>;
    type IntoFuture = TryCall<T, Written>;

    fn into_future(self) -> TryCall<T, Written> {
        let (name, at) = (self.work.name, self.work.at);
        let about = match self.about {
            Some(Err(error)) => {
                return TryCall::bad_at(tiffany_kernel::CallKind::Effect, error, at);
            }
            Some(Ok(about)) => Some(about),
            None => None,
        };
        let work = EffectWork { name, about, work: Box::new(self.work) };
        TryCall::new_at(SystemCall::Effect(work), at)
    }
}
