//! Mistakes that can be switched on in a copy of the runtime and its log, to show that the tests notice them. The product
//! has nothing of this: `edits.txt` puts the switches into the copy.

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// The log says that a batch is durable before it writes it.
    NoticeBeforeCommit,
    /// A step begins before the log has that it does.
    EffectBeforeCommit,
    /// A promise is handed out before the log has it.
    PromiseBeforeCommit,
    /// Who submits, sends or settles is answered before the log has it.
    AnswerBeforeCommit,
    /// An outcome is told before the log has it.
    OutcomeBeforeCommit,
    /// The result of a step is not written down.
    ResultNotRecorded,
    /// The start of an attempt is not written down.
    AttemptNotRecorded,
    /// A failed attempt is not written down.
    FailureNotRecorded,
    /// A message is not written down.
    MessageNotRecorded,
    /// What settled a promise is not written down.
    SettlementNotRecorded,
    /// A promise that is settled is settled again.
    SettledTwice,
    /// After a restart nobody knows that a promise was settled.
    SettlementForgotten,
    /// A step that is at most once and in doubt is done again.
    DoubtIgnored,
    /// Attempts are numbered from 1 again after a restart.
    AttemptsForgotten,
    /// Failures are counted from 0 again after a restart.
    FailuresForgotten,
    /// A step has another key after a restart.
    KeyChanges,
    /// A resumed run draws other random numbers.
    SeedForgotten,
    /// A result that is written down is asked for again.
    ResultForgotten,
    /// A resumed run writes its end once more.
    EndWrittenTwice,
    /// The index counts on files before they are synced.
    IndexBeforeFiles,
    /// Segments are used again before what is in them is safe elsewhere.
    ReleaseBeforeCheckpoint,
    /// A new index has its name before its content.
    IndexNamedFirst,
    /// A new segment has its name before its content.
    SegmentNamedFirst,
    /// Blocks are taken for good without their checksums.
    ChecksumIgnored,
}

impl Mutation {
    /// All of them.
    pub const ALL: &[Mutation] = &[
        Mutation::NoticeBeforeCommit,
        Mutation::EffectBeforeCommit,
        Mutation::PromiseBeforeCommit,
        Mutation::AnswerBeforeCommit,
        Mutation::OutcomeBeforeCommit,
        Mutation::ResultNotRecorded,
        Mutation::AttemptNotRecorded,
        Mutation::FailureNotRecorded,
        Mutation::MessageNotRecorded,
        Mutation::SettlementNotRecorded,
        Mutation::SettledTwice,
        Mutation::SettlementForgotten,
        Mutation::DoubtIgnored,
        Mutation::AttemptsForgotten,
        Mutation::FailuresForgotten,
        Mutation::KeyChanges,
        Mutation::SeedForgotten,
        Mutation::ResultForgotten,
        Mutation::EndWrittenTwice,
        Mutation::IndexBeforeFiles,
        Mutation::ReleaseBeforeCheckpoint,
        Mutation::IndexNamedFirst,
        Mutation::SegmentNamedFirst,
        Mutation::ChecksumIgnored,
    ];

    /// Whether it is in force on this thread.
    pub fn is_on(self) -> bool {
        ACTIVE.get() == Some(self)
    }

    /// Does something with this mistake in force, on this thread.
    pub fn during<T>(self, act: impl FnOnce() -> T) -> T {
        struct Off;
        impl Drop for Off {
            fn drop(&mut self) {
                ACTIVE.set(None);
            }
        }
        ACTIVE.set(Some(self));
        let _off = Off;
        act()
    }
}

thread_local! {
    static ACTIVE: std::cell::Cell<Option<Mutation>> = const { std::cell::Cell::new(None) };
}
