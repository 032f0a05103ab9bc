//! Mistakes that can be switched on in a copy of the runtime and its log, to show that the tests
//! detect them. The product contains none of this: `edits.txt` inserts the switches into the copy.

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// The log reports a batch as durable before writing it.
    NoticeBeforeCommit,
    /// A step begins before its start is durable.
    EffectBeforeCommit,
    /// A promise is published before it is durable.
    PromiseBeforeCommit,
    /// Requests to submit, send or settle are answered before they are durable.
    AnswerBeforeCommit,
    /// An outcome is reported before it is durable.
    OutcomeBeforeCommit,
    /// The result of a step is not recorded.
    ResultNotRecorded,
    /// The start of an attempt is not recorded.
    AttemptNotRecorded,
    /// A failed attempt is not recorded.
    FailureNotRecorded,
    /// A message is not recorded.
    MessageNotRecorded,
    /// The settlement of a promise is not recorded.
    SettlementNotRecorded,
    /// A settled promise can be settled again.
    SettledTwice,
    /// A restart forgets that a promise was settled.
    SettlementForgotten,
    /// An at-most-once step in doubt is repeated.
    DoubtIgnored,
    /// A restart numbers attempts from 1 again.
    AttemptsForgotten,
    /// A restart counts failures from 0 again.
    FailuresForgotten,
    /// A restart changes the key of a step.
    KeyChanges,
    /// A resumed run draws different random numbers.
    SeedForgotten,
    /// A step whose result is recorded is performed again.
    ResultForgotten,
    /// A resumed run records its end again.
    EndWrittenTwice,
    /// The index relies on files before they are synced.
    IndexBeforeFiles,
    /// Segments are reused before their blocks are durable elsewhere.
    ReleaseBeforeCheckpoint,
    /// A new index gets its name before its contents are durable.
    IndexNamedFirst,
    /// A new segment gets its name before its contents are durable.
    SegmentNamedFirst,
    /// Blocks are accepted without checking their checksums.
    ChecksumIgnored,
}

impl Mutation {
    /// All mistakes.
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

    /// Returns whether the mistake is switched on for this thread.
    pub fn is_on(self) -> bool {
        ACTIVE.get() == Some(self)
    }

    /// Calls a function with this mistake switched on for this thread.
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
