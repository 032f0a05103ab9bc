//! Runs that are over, and how long they are kept. A [`Retention`] is a rule; what it would do is a [`Plan`]; a [`Keeper`] carries it out, through the
//! process that has the directory or, where none has, on the log itself. A runtime does it by itself, in the background, if its builder
//! is given [a rule](crate::runtime::builder::Builder::retention).
//!
//! ```
//! use std::time::Duration;
//! use tiffany::retention::{Keeper, Retention};
//! use tiffany::{Runtime, TaskError};
//!
//! # let dir = std::env::temp_dir().join(format!("tiffany-retention-{}", std::process::id()));
//! let mut runtime = Runtime::builder()
//!     .log_dir(&dir)
//!     .register("greet", |name: String| async move { Ok::<_, TaskError>(format!("hello {name}")) })
//!     .build()?;
//! for name in ["Ada", "Bob", "Eve"] {
//!     let run = runtime.submit::<String>("greet", name, &name)?;
//!     runtime.wait_for(&run)?;
//! }
//! drop(runtime);
//!
//! let mut keeper = Keeper::open(&dir)?;
//! let plan = keeper.plan(&[Retention::new().keep(1)])?;
//! assert_eq!(plan.remove.len(), 2);
//! let done = keeper.carry_out(&plan)?;
//! assert_eq!(done.removed, 2);
//! # drop(keeper);
//! # std::fs::remove_dir_all(&dir).unwrap();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `rule.rs` is what can be said, `facts.rs` what is known of runs, `plan.rs` what follows from both; `remains.rs` is what is left of a compacted run, `work.rs` how
//! it is done in small batches, `keeper.rs` by whom, and `background.rs` when nobody asks.

pub(crate) mod background;
pub(crate) mod facts;
pub(crate) mod keeper;
pub(crate) mod plan;
pub(crate) mod work;

pub use crate::run_log::needed::NeededBy;
pub use keeper::{Keeper, plan_of};
pub(crate) use keeper::{carry_out, collect_blobs, compact};
pub use plan::{Candidate, Kept, Plan, Why};
pub use tiffany_records::retention::Retention;
pub use work::Pruned;
