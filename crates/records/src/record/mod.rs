//! The records of a run's log: one table of all records and their fields, from which the decoder
//! ([`Record::read`]) and the encoder ([`Record::write`]) are generated. Fields are in the order in
//! which lines have them. The book's chapter "WAL format" explains each record.

mod field;
#[cfg(test)]
mod tests;
mod variants;

use tiffany_log::{Line, LogLine, RecordType};

pub use crate::record::variants::{Annotated, EffectEnd, Ended, Wake};
pub use field::{Digits, Field, Flag, Inline, Json, Text, Value, owned};

/// A record that can be written.
pub trait Encode {
    /// The type of its line.
    const TYPE: RecordType;

    /// Writes its fields into a line of its type.
    fn write<'l>(&self, line: Line<'l>) -> Line<'l>;
}

macro_rules! records {
    ($($(#[$doc:meta])* $name:ident $(<$life:lifetime>)? { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* })+) => {
        /// The contents of one line of a run's log.
        #[derive(Clone, Debug)]
        pub enum Record<'a> {
            $($(#[$doc])* $name($name $(<$life>)?),)+
            /// A type that this version does not know. Its line is passed on whole.
            Unknown,
        }

        $(
            $(#[$doc])*
            #[derive(Clone, Debug, Default)]
            pub struct $name $(<$life>)? {
                $($(#[$field_doc])* pub $field: $type,)*
            }

            impl<'a> $name $(<$life>)? {
                /// The names of its fields, in the order in which a line has them.
                pub const FIELDS: &'static [&'static str] = &[$(stringify!($field)),*];

                /// Reads the fields of a line of this type. Missing fields, and those of another
                /// form, are absent.
                #[inline(always)]
                pub fn read(line: &LogLine<'a>) -> $name $(<$life>)? {
                    #[allow(unused_mut, reason = "some records have no fields")]
                    let mut record = $name::default();
                    let mut fields = line.fields();
                    #[allow(unused_mut, reason = "some records have no fields")]
                    let mut next = fields.next();
                    // Fields are expected in the order of the table, which is that of the lines.
                    $(if let Some((stringify!($field), json)) = next {
                        record.$field = Field::read(json);
                        next = fields.next();
                    })*
                    // The remaining fields are unknown or in another order.
                    while let Some((name, _json)) = next {
                        match name {
                            $(stringify!($field) => record.$field = Field::read(_json),)*
                            _ => {}
                        }
                        next = fields.next();
                    }
                    record
                }

            }

            impl $(<$life>)? Encode for $name $(<$life>)? {
                const TYPE: RecordType = RecordType::$name;

                #[inline]
                #[allow(unused_mut, reason = "some records have no fields")]
                fn write<'l>(&self, mut line: Line<'l>) -> Line<'l> {
                    $(self.$field.write(&mut line, stringify!($field));)*
                    line
                }
            }
        )+

        impl<'a> Record<'a> {
            /// Every known type with the names of its fields.
            pub const TABLE: &'static [(&'static str, &'static [&'static str])] =
                &[$((stringify!($name), $name::FIELDS)),+];

            /// Reads a line.
            pub fn read(line: &LogLine<'a>) -> Record<'a> {
                match line.kind {
                    $(stringify!($name) => Record::$name($name::read(line)),)+
                    _ => Record::Unknown,
                }
            }

            /// Returns the name of its type; `None` for an unknown one.
            pub fn name(&self) -> Option<&'static str> {
                match self {
                    $(Record::$name(_) => Some(stringify!($name)),)+
                    Record::Unknown => None,
                }
            }

            /// Writes its fields into a line of its type.
            pub fn write<'l>(&self, line: Line<'l>) -> Line<'l> {
                match self {
                    $(Record::$name(record) => record.write(line),)+
                    Record::Unknown => line,
                }
            }
        }
    };
}

records! {
    /// The first line of a generation: the function and its input.
    RunStart<'a> {
        /// The version of the rules about the end of a run that it follows; absent for the first
        /// version.
        rules: Option<u64>,
        /// The namespace that its identity belongs to; absent for the empty one.
        namespace: Option<Text<'a>>,
        /// The id it was started with.
        id: Option<Text<'a>>,
        /// The name of the function.
        function: Option<Text<'a>>,
        /// Where it was forked from, if it is a fork.
        fork: Option<Json<'a>>,
        /// A summary of earlier generations: when the run started, and the number of calls.
        continued: Option<Json<'a>>,
        /// When it fails if it has not ended.
        deadline: Option<Text<'a>>,
        /// The tags that it begins with.
        tags: Option<Inline<'a>>,
        /// The attributes that it begins with.
        attributes: Option<Inline<'a>>,
        /// The input of the function.
        input: Option<Value<'a>>,
        /// The seed of its random numbers.
        seed: Option<Digits<'a>>,
        /// Which calls are recorded.
        recording: Option<Text<'a>>,
        /// Information about the environment, for the language of its code.
        language: Option<Json<'a>>,
    }
    /// A task was spawned.
    TaskSpawn<'a> {
        /// The new task.
        child: Option<u64>,
        /// Its name.
        name: Option<Text<'a>>,
        /// Whether it is a daemon task.
        daemon: Flag,
        /// The code of the error, if the spawn was refused.
        error: Option<Text<'a>>,
        /// The line of code.
        at: Option<Text<'a>>,
    }
    /// A task made a call, or several plain yields.
    TaskYield<'a> {
        /// The tag of the call.
        call: Option<Text<'a>>,
        /// The name that a step or a custom call has.
        name: Option<Text<'a>>,
        /// The task it is about.
        task: Option<u64>,
        /// The promise, channel, semaphore or group it is about.
        object: Option<u64>,
        /// The tasks and promises it is about.
        items: Option<Inline<'a>>,
        /// The key of a store, the name of an inbox, or the key of a step of an earlier generation.
        key: Option<Text<'a>>,
        /// A number it is about.
        number: Option<Digits<'a>>,
        /// An identity it is about.
        uuid: Option<Text<'a>>,
        /// Data that the host needs later.
        about: Option<Json<'a>>,
        /// Until when it waits.
        time: Option<Text<'a>>,
        /// The data that a person needs for the decision.
        payload: Option<Value<'a>>,
        /// The code of the error, if it was refused at once.
        error: Option<Text<'a>>,
        /// The line of code.
        at: Option<Text<'a>>,
        /// The number of plain yields.
        count: Option<u64>,
    }
    /// A waiting task continues, or the run was told something; see [`TaskWake::wake`].
    TaskWake<'a> {
        /// The record of the call.
        of: Option<u64>,
        /// The reason, if it is not the answer to a call.
        why: Option<Text<'a>>,
        /// The number of turns of the run so far.
        step: Option<u64>,
        /// Whether all tasks ended at once.
        force: Flag,
    }
    /// A task ended with its value.
    TaskExit<'a> {
        /// The value, if it is the root.
        value: Option<Value<'a>>,
    }
    /// A task ended with an error.
    TaskAbort<'a> {
        /// The error.
        error: Option<Value<'a>>,
    }
    /// A task was cancelled.
    TaskCancel<'a> {
        /// The error, if it is the root.
        error: Option<Value<'a>>,
    }
    /// An attempt at a step begins.
    EffectStart {
        /// The record of the call.
        of: Option<u64>,
        /// The number of the attempt.
        attempt: Option<u64>,
    }
    /// Data that an effect's work saves for its next attempt.
    EffectCheckpoint<'a> {
        /// The record of the call.
        of: Option<u64>,
        /// The number of the attempt.
        attempt: Option<u64>,
        /// The value.
        value: Option<Value<'a>>,
    }
    /// The result of an attempt at a step; see [`EffectResult::end`].
    EffectResult<'a> {
        /// The record of the call.
        of: Option<u64>,
        /// The number of the attempt.
        attempt: Option<u64>,
        /// The decision of a person about an attempt in doubt.
        decided: Option<Text<'a>>,
        /// The number of turns of the run so far.
        step: Option<u64>,
        /// The value.
        value: Option<Value<'a>>,
        /// The error.
        error: Option<Value<'a>>,
        /// When the next attempt is due.
        retry_at: Option<Text<'a>>,
        /// `parent` if a fork has this from the run it was forked from.
        from: Option<Text<'a>>,
        /// Whether a fork was given this in place of what its parent had.
        set: Flag,
        /// When it was changed in the fork.
        set_ts: Option<Text<'a>>,
        /// The person who changed it in the fork.
        set_by: Option<Text<'a>>,
    }
    /// A person answered a question.
    ApprovalDecided<'a> {
        /// The record of the call.
        of: Option<u64>,
        /// The number of turns of the run so far.
        step: Option<u64>,
        /// The answer.
        value: Option<Value<'a>>,
        /// The error in place of an answer.
        error: Option<Value<'a>>,
        /// Whether a fork was given this in place of what its parent had.
        set: Flag,
        /// When it was changed in the fork.
        set_ts: Option<Text<'a>>,
        /// The person who changed it in the fork.
        set_by: Option<Text<'a>>,
    }
    /// A question was withdrawn.
    ApprovalWithdrawn {
        /// The record of the call.
        of: Option<u64>,
    }
    /// A promise was settled.
    PromiseSettled<'a> {
        /// The promise.
        promise: Option<Text<'a>>,
        /// The number of turns of the run so far.
        step: Option<u64>,
        /// Its value.
        value: Option<Value<'a>>,
        /// Its error.
        error: Option<Value<'a>>,
        /// Whether a fork was given this in place of what its parent had.
        set: Flag,
        /// When it was changed in the fork.
        set_ts: Option<Text<'a>>,
        /// The person who changed it in the fork.
        set_by: Option<Text<'a>>,
    }
    /// The run received a message.
    Message<'a> {
        /// The name it was sent under.
        name: Option<Text<'a>>,
        /// The contents of the message.
        value: Option<Value<'a>>,
        /// The number of turns of the run so far.
        step: Option<u64>,
        /// The key of the call of another run that sent it.
        from: Option<Text<'a>>,
        /// Whether a fork was given this in place of what its parent had.
        set: Flag,
        /// When it was changed in the fork.
        set_ts: Option<Text<'a>>,
        /// The person who changed it in the fork.
        set_by: Option<Text<'a>>,
    }
    /// The first record of a later generation, with the entire state of the run.
    Snapshot<'a> {
        /// The checksum of the last line of the generation before.
        after: Option<Text<'a>>,
        /// How many lines belong to it.
        lines: Option<u64>,
        /// The tables of the run.
        tables: Option<Inline<'a>>,
    }
    /// The run was paused, by a person or by a limit.
    RunHeld<'a> {
        /// The person.
        by: Option<Text<'a>>,
        /// The limit.
        limit: Option<Text<'a>>,
        /// The task that kept its turn.
        task: Option<u64>,
        /// How much was used.
        used: Option<u64>,
        /// How much is allowed.
        allowed: Option<u64>,
        /// A sentence for people.
        why: Option<Text<'a>>,
    }
    /// The run continues.
    RunReleased<'a> {
        /// The person.
        by: Option<Text<'a>>,
        /// The reason that was given.
        why: Option<Text<'a>>,
    }
    /// The run has these tags and attributes from here on, and no others.
    Attributes<'a> {
        /// The tags.
        tags: Option<Inline<'a>>,
        /// The attributes.
        attributes: Option<Inline<'a>>,
        /// The line of code; absent in the last line of a run, which repeats them.
        at: Option<Text<'a>>,
    }
    /// An agent was given an instruction.
    InstructionStart<'a> {
        /// The record of the call that it is about.
        of: Option<u64>,
        /// The generation of that record, if it is another one.
        of_gen: Option<u64>,
        /// The record of the instruction that the task follows.
        instruction: Option<u64>,
        /// The generation of that record, if it is another one.
        instruction_gen: Option<u64>,
        /// What it says.
        value: Option<Value<'a>>,
        /// The line of code.
        at: Option<Text<'a>>,
    }
    /// An agent made or revised its plan.
    LLMPlan<'a> {
        /// The record of the call that it is about.
        of: Option<u64>,
        /// The generation of that record, if it is another one.
        of_gen: Option<u64>,
        /// The record of the instruction that the task follows.
        instruction: Option<u64>,
        /// The generation of that record, if it is another one.
        instruction_gen: Option<u64>,
        /// What it says.
        value: Option<Value<'a>>,
        /// The line of code.
        at: Option<Text<'a>>,
    }
    /// A step of an agent's plan begins.
    StepStart<'a> {
        /// The record of the call that it is about.
        of: Option<u64>,
        /// The generation of that record, if it is another one.
        of_gen: Option<u64>,
        /// The record of the instruction that the task follows.
        instruction: Option<u64>,
        /// The generation of that record, if it is another one.
        instruction_gen: Option<u64>,
        /// What it says.
        value: Option<Value<'a>>,
        /// The line of code.
        at: Option<Text<'a>>,
    }
    /// A tool of an agent has ended.
    ToolResult<'a> {
        /// The record of the call that it is about.
        of: Option<u64>,
        /// The generation of that record, if it is another one.
        of_gen: Option<u64>,
        /// The record of the instruction that the task follows.
        instruction: Option<u64>,
        /// The generation of that record, if it is another one.
        instruction_gen: Option<u64>,
        /// What it says.
        value: Option<Value<'a>>,
        /// The line of code.
        at: Option<Text<'a>>,
    }
    /// An agent is about to change files.
    PatchPreview<'a> {
        /// The record of the call that it is about.
        of: Option<u64>,
        /// The generation of that record, if it is another one.
        of_gen: Option<u64>,
        /// The record of the instruction that the task follows.
        instruction: Option<u64>,
        /// The generation of that record, if it is another one.
        instruction_gen: Option<u64>,
        /// What it says.
        value: Option<Value<'a>>,
        /// The line of code.
        at: Option<Text<'a>>,
    }
    /// An agent has changed files.
    Commit<'a> {
        /// The record of the call that it is about.
        of: Option<u64>,
        /// The generation of that record, if it is another one.
        of_gen: Option<u64>,
        /// The record of the instruction that the task follows.
        instruction: Option<u64>,
        /// The generation of that record, if it is another one.
        instruction_gen: Option<u64>,
        /// What it says.
        value: Option<Value<'a>>,
        /// The line of code.
        at: Option<Text<'a>>,
    }
    /// An agent is done with its instruction.
    TaskComplete<'a> {
        /// The record of the call that it is about.
        of: Option<u64>,
        /// The generation of that record, if it is another one.
        of_gen: Option<u64>,
        /// The record of the instruction that the task follows.
        instruction: Option<u64>,
        /// The generation of that record, if it is another one.
        instruction_gen: Option<u64>,
        /// What it says.
        value: Option<Value<'a>>,
        /// The line of code.
        at: Option<Text<'a>>,
    }
    /// The process shut down cleanly.
    ShutdownMarker {}
    /// All lines before this one are from another run; from here on, the run is a fork of it.
    Forked<'a> {
        /// The run it was forked from.
        run: Option<Text<'a>>,
        /// The record there.
        at: Option<u64>,
        /// The seed of the fork's random numbers.
        seed: Option<Digits<'a>>,
        /// The names of the steps it may do.
        allow: Option<Json<'a>>,
    }
    /// A fork needs a step that it may not do.
    EffectRefused<'a> {
        /// The record of the call.
        of: Option<u64>,
        /// The name of the step.
        name: Option<Text<'a>>,
    }
    /// Steps of a fork were allowed by name.
    EffectAllowed<'a> {
        /// The names.
        allow: Option<Json<'a>>,
    }
    /// The run was compacted: all records between the first and the last one were dropped.
    Compacted<'a> {
        /// How many records there were.
        records: Option<u64>,
        /// How many bytes they had.
        bytes: Option<u64>,
        /// The last message of each run that may send one again.
        received: Option<Inline<'a>>,
    }
    /// The last line of a fixture.
    Captured<'a> {
        /// The number of records before it.
        records: Option<u64>,
        /// The rules by which values were redacted.
        redacted: Option<Json<'a>>,
    }
}
