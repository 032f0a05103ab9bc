//! What the command line needs of the runtime, and programs don't. Nothing here is stable.

pub use crate::clock::Clock;
pub use crate::control::{UNANSWERED, no_activity, unexpected};
pub use crate::durable::resume::reading::fetch;
pub use crate::durable::resume::rehearsal::{Rehearsal, Until};
pub use crate::durable::resume::survey::Standing;
pub use crate::durable::resume::verdict::{Deeds, Verdict};
pub use crate::durable::shelved::Shelved;
pub use crate::host::entropy::Entropy;
pub use crate::near::near;
pub use crate::time_travel::capture::fixture::Fixture;
pub use crate::time_travel::capture::{
    CaptureError, Captured, Over, Redaction, capture_in, name_of, write_whole,
};
pub use crate::time_travel::trial::script;
pub use tiffany_records::key::run_id;
pub use tiffany_records::request::own_uid;
pub use tiffany_records::request::{Row, SHORTEST};
