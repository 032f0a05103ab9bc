//! The system's figures of this process, under the usual names of such metrics.

use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

/// The unit in which the system reports times to programs: this part of a second, whatever its own
/// clock uses.
const TICKS: f64 = 100.0;

/// Computed once, because it comes from clocks that do not quite agree.
static START: OnceLock<Option<f64>> = OnceLock::new();

/// The known figures; those that the system does not report are left out.
#[derive(Debug, Default)]
pub(crate) struct Process {
    pub(crate) cpu_seconds: Option<f64>,
    pub(crate) start_seconds: Option<f64>,
    pub(crate) resident: Option<u64>,
    pub(crate) virtual_bytes: Option<u64>,
    pub(crate) threads: Option<u64>,
    pub(crate) open_fds: Option<u64>,
    pub(crate) max_fds: Option<u64>,
}

impl Process {
    pub(crate) fn read() -> Process {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        Process {
            cpu_seconds: Duration::try_from(cpu).ok().map(|time| time.as_secs_f64()),
            start_seconds: *START.get_or_init(start),
            resident: field("VmRSS:").map(|kibibytes| kibibytes << 10),
            virtual_bytes: field("VmSize:").map(|kibibytes| kibibytes << 10),
            threads: field("Threads:"),
            open_fds: std::fs::read_dir("/proc/self/fd").ok().map(|fds| fds.count() as u64),
            max_fds: getrlimit(Resource::Nofile).current,
        }
    }
}

/// When this process started, in seconds since 1970.
fn start() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program may contain blanks and brackets; the rest does not.
    let (_, fields) = stat.rsplit_once(") ")?;
    // Field 22 in the system's manual; the first one here is number 3.
    let since_boot: f64 = fields.split(' ').nth(22 - 3)?.parse().ok()?;
    let uptime = std::fs::read_to_string("/proc/uptime").ok()?;
    let uptime: f64 = uptime.split(' ').next()?.parse().ok()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs_f64();
    Some(now - uptime + since_boot / TICKS)
}
