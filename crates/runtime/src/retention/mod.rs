//! How long finished runs are kept. A [`Retention`] is a rule, and a [`Plan`] says what rules would
//! do. A [`Keeper`] carries a plan out: through the process that owns the directory, or on the log
//! itself if no process owns it. A runtime whose builder has [a
//! rule](crate::runtime::builder::Builder::retention) does so in the background.
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
//! Rules, and what they would do, are computed in `tiffany-records`; `work.rs` does it in small batches, `keeper.rs` on
//! behalf of a program or a command, and `background.rs` again and again.

pub(crate) mod background;
pub(crate) mod keeper;
pub(crate) mod work;

pub use keeper::{Keeper, plan_of};
pub(crate) use keeper::{carry_out, collect_blobs, compact};
pub use tiffany_records::retention::{Candidate, Kept, NeededBy, Plan, Retention, Why};
pub use work::Pruned;
