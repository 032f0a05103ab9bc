//! Items of the runtime that the command line needs and programs don't. Nothing here is stable.

pub use crate::clock::Clock;
pub use crate::control::{UNANSWERED, no_activity, unexpected};
pub use crate::did_you_mean::did_you_mean;
pub use crate::host::entropy::Entropy;
pub use crate::run_log::dormant_run::DormantRun;
pub use crate::run_log::replay::dry_run::{DryRun, Until};
pub use crate::run_log::replay::read::fetch;
pub use crate::run_log::replay::verdict::{Deeds, Verdict};
pub use crate::runtime::api::Standing;
pub use crate::time_travel::capture::fixture::Fixture;
pub use crate::time_travel::capture::{
    CaptureError, Captured, Over, Redaction, capture_in, name_of, write_whole,
};
pub use crate::time_travel::trial::decode_run;
pub use tiffany_records::key::run_id;
pub use tiffany_records::request::own_uid;
pub use tiffany_records::request::{Row, SHORTEST};
