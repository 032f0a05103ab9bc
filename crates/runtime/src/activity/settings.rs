//! How much of what happened a hub remembers.

/// How much a [`Hub`](crate::activity::hub::Hub) keeps, for those who come later or are slow.
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
    /// Events of one run, besides those of all runs together; 1,024 unless it is set. A run has them once it has done more than begin.
    pub per_run: usize,
    /// Events of all runs together, for those who read all of them; 4,096 unless it is set.
    pub in_all: usize,
    /// Turns (`Running`, `Blocked`, `Woken`) that wait for those who want them, of all runs that are watched so; 16,384 unless it is set.
    pub turns: usize,
    /// Bytes of all events of all runs; 16 MiB unless it is set. The list for those who read all runs has as many again.
    pub bytes: usize,
    /// Bytes of a message; a longer one is cut. 16 KiB unless it is set.
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
