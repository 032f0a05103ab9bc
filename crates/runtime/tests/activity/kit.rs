//! What the tests share: runs that are watched from their beginning to the end of their runtime.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tiffany::pal::{Activity, Subscription, Told, Wanted};
use tiffany::{Builder, Runtime};

/// No test waits longer than this.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// The events of a run of this root.
pub(crate) fn watch<F>(builder: Builder, wanted: Wanted, root: F) -> Vec<Arc<Activity>>
where
    F: Future<Output = ()> + 'static,
{
    let mut runtime = builder.on_unobserved(|_| {}).build().expect("a runtime");
    let events = runtime.activity().subscribe(wanted);
    // How it ends is among the events.
    drop(runtime.run(root));
    drop(runtime);
    all(events)
}

/// All that is left to read; nothing may be lost.
pub(crate) fn all(mut events: Subscription) -> Vec<Arc<Activity>> {
    let mut told = Vec::new();
    while let Some(next) = events.next_timeout(LIMIT).expect("the runtime is gone") {
        match next {
            Told::Event(event) => told.push(event),
            Told::Lost { count } => panic!("{count} events were lost"),
        }
    }
    told
}

/// Events in short: `tid Stage`, `-` for what is about the whole run.
pub(crate) fn short(events: &[Arc<Activity>]) -> Vec<String> {
    let tid = |event: &Activity| event.tid.map_or("-".to_owned(), |tid| tid.to_string());
    events.iter().map(|event| format!("{} {}", tid(event), event.stage)).collect()
}

/// A directory for a log, removed at the end.
pub(crate) struct Dir(pub(crate) PathBuf);

impl Dir {
    pub(crate) fn new(name: &str) -> Dir {
        let dir = std::env::temp_dir().join(format!("tiffany-pal-{name}-{}", std::process::id()));
        drop(std::fs::remove_dir_all(&dir));
        Dir(dir)
    }

    pub(crate) fn builder(&self) -> Builder {
        Runtime::builder().log_dir(&self.0)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}
