//! Annotations: records with which a program describes what it does, such as the steps of a plan.
//! They are recorded and shown, but a replay doesn't compare them.

use std::rc::Rc;

macro_rules! annotation_kinds {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        /// The kinds of annotations. Each is the type of a record.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum AnnotationKind { $($(#[$doc])* $name,)+ }

        impl AnnotationKind {
            /// All kinds.
            pub const ALL: &[AnnotationKind] = &[$(AnnotationKind::$name),+];

            /// The type of the record.
            pub fn name(self) -> &'static str {
                match self { $(AnnotationKind::$name => stringify!($name)),+ }
            }
        }
    };
}

annotation_kinds! {
    /// An agent was given an instruction.
    InstructionStart,
    /// A plan was made or revised.
    LLMPlan,
    /// A step of the plan begins.
    StepStart,
    /// A tool has ended.
    ToolResult,
    /// Changes to files are about to be made.
    PatchPreview,
    /// Changes to files were made.
    Commit,
    /// The instruction is done.
    TaskComplete,
}

/// An annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Annotation {
    /// Its kind.
    pub kind: AnnotationKind,
    /// What it says, as JSON.
    pub value: Rc<str>,
    /// The call that it is about; `None`: the last outward call that the task made.
    pub of: Option<RecordedCall>,
}

/// A call, by its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedCall {
    /// The generation of the run's log.
    pub generation: u32,
    /// The number of the record in its generation.
    pub seq: u64,
}
