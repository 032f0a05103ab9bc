//! `annotate`: a record for people, which a replay doesn't compare.

use std::panic::Location;

use serde::Serialize;
use tiffany_kernel::{
    Annotation, AnnotationKind, CallKind, ErrorKind, RecordedCall, SystemCall, TaskError,
};
use tiffany_records::key::Key;
use tiffany_records::value::encode;

use crate::calls::call::TryCall;

/// Records what the task does, for people who read the log. It changes nothing for the run: the record is written whatever
/// else is recorded, a replay compares it with nothing, and a resumed run doesn't write it again.
///
/// In a run that is not durable it does nothing.
///
/// The record names the last call of this task that concerned the world, such as a step, unless another one is
/// [given](Annotate::of); and the `InstructionStart` that the task, or the one that spawned it, wrote last.
///
/// ```
/// use tiffany::durable::{AnnotationKind, annotate, step};
/// use tiffany::{Runtime, TaskError};
///
/// # let dir = std::env::temp_dir().join(format!("tiffany-doc-annotate-{}", std::process::id()));
/// async fn agent(task: String) -> Result<u64, TaskError> {
///     annotate(AnnotationKind::InstructionStart, &task).await?;
///     let files: u64 = step("count", || Ok::<_, String>(3)).await?;
///     annotate(AnnotationKind::ToolResult, &format!("{files} files")).await?;
///     Ok(files)
/// }
///
/// let mut runtime = Runtime::builder().log_dir(&dir).register("agent", agent).build()?;
/// let run = runtime.submit::<u64>("agent", "agent-1", &"count the files")?;
/// assert_eq!(runtime.wait_for(&run)?, 3);
/// # drop(runtime);
/// # std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), tiffany::RunError>(())
/// ```
#[track_caller]
pub fn annotate(kind: AnnotationKind, value: &(impl Serialize + ?Sized)) -> Annotate {
    Annotate { kind, value: encode(value), of: Ok(None), at: Location::caller() }
}

/// An annotation that is about to be written; see [`annotate`].
#[must_use = "an annotation is written when it is awaited: add `.await`"]
pub struct Annotate {
    kind: AnnotationKind,
    value: Result<String, TaskError>,
    of: Result<Option<RecordedCall>, TaskError>,
    at: &'static Location<'static>,
}

impl Annotate {
    /// Sets the call that it is about, by its key, such as that of an attempt at a step.
    pub fn of(self, key: &str) -> Annotate {
        let of = Key::parse(key).map(|key| {
            let (generation, seq) = (key.number.generation, key.number.seq);
            Some(RecordedCall { generation, seq })
        });
        let bad =
            || TaskError::new(ErrorKind::BadArgument, format!("`{key}` is not a key of a call"));
        Annotate { of: of.ok_or_else(bad), ..self }
    }
}

impl IntoFuture for Annotate {
    type Output = Result<(), TaskError>;
    type IntoFuture = TryCall<()>;

    fn into_future(self) -> TryCall<()> {
        let Annotate { kind, value, of, at } = self;
        match value.and_then(|value| Ok(Annotation { kind, value: value.into(), of: of? })) {
            Ok(annotation) => TryCall::new_at(SystemCall::Annotate(Box::new(annotation)), at),
            Err(error) => TryCall::bad_at(CallKind::Annotate, error, at),
        }
    }
}
