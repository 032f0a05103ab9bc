//! How many events a hub keeps.

/// How many events a [`Hub`](crate::activity::hub::Hub) keeps for readers that are slow or
/// subscribe later.
///
/// ```
/// use tiffany::Runtime;
/// use tiffany::pal::Settings;
///
/// let runtime = Runtime::builder()
///     .activity(Settings { per_run: 100, ..Settings::default() })
///     .build()?;
/// # drop(runtime);
/// # Ok::<(), tiffany::RunError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The number of events kept for one run, in addition to those kept for all runs together;
    /// 1,024 by default. A run gets them once it has done more than start.
    pub per_run: usize,
    /// The number of events kept for readers of all runs; 4,096 by default.
    pub in_all: usize,
    /// The number of turn events (`Running`, `Blocked`, `Woken`) kept for readers that want them,
    /// over all runs watched in this way; 16,384 by default.
    pub turns: usize,
    /// The bytes of all events of all runs; 16 MiB by default. The list for readers of all runs may
    /// use as much again.
    pub bytes: usize,
    /// The maximum bytes of a message; longer ones are cut. 16 KiB by default.
    pub message: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            per_run: 1024,
            in_all: 4 << 10,
            turns: 16 << 10,
            bytes: 16 << 20,
            message: 16 << 10,
        }
    }
}
