//! Transactional steps against a real PostgreSQL server, which each test starts and stops.

mod kill;
mod once;
mod proxy;
mod server;

use std::path::Path;

use tiffany::wal::Settings;
use tiffany::{Builder, Runtime};

fn builder(log: &Path) -> Builder {
    let settings = Settings { segment_bytes: 1 << 18, ..Settings::default() };
    Runtime::builder().log_dir(log).log_settings(settings)
}
