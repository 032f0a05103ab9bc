//! Transactional steps against a real database in a file.

mod kill;
mod once;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use tiffany::wal::Settings;
use tiffany::{Builder, Runtime};
use tiffany_sqlite::Sqlite;
use tiffany_sqlite::rusqlite::Connection;

/// A directory that is removed when it is dropped.
struct Dir(PathBuf);

impl Dir {
    fn new() -> Dir {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir =
            std::env::temp_dir().join(format!("tiffany-sqlite-{}-{number}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).expect("it can be made");
        Connection::open(dir.join("db"))
            .and_then(|db| db.execute_batch("CREATE TABLE effect (round INTEGER, key TEXT)"))
            .expect("it can be made");
        Dir(dir)
    }

    fn sqlite(&self) -> Sqlite {
        Sqlite::new(self.0.join("db"))
    }

    /// Returns how often each round was done.
    fn effects(&self) -> Vec<(i64, i64)> {
        let db = self.open();
        let count = "SELECT round, count(*) FROM effect GROUP BY round ORDER BY round";
        let mut count = db.prepare(count).expect("there is a table");
        let rows = count.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).expect("it is read");
        rows.map(|row| row.expect("it is read")).collect()
    }

    fn open(&self) -> Connection {
        Connection::open(self.0.join("db")).expect("it opens")
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn builder(log: &Path) -> Builder {
    let settings = Settings { segment_bytes: 1 << 18, ..Settings::default() };
    Runtime::builder().log_dir(log).log_settings(settings)
}
