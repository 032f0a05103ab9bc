//! The thread behind the log thread: it prepares segments, puts durable lines into the files of their runs, and
//! makes checkpoints. It never delays a commit, unless it is far behind.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::applier::Applier;
use super::error::LogError;
use super::segments::Segment;
use super::thread::{News, Shared, Wishes};

/// So many emptied batches are kept.
const SPARE: usize = 2;
/// Lines wait so long for more, so that a run with many small commits costs few writes...
const LINGER: Duration = Duration::from_millis(5);
/// ...unless there are so many bytes of them.
pub(crate) const ENOUGH: usize = 1 << 20;

/// Starts it. It ends when it is told to, or at the first failure.
pub(crate) fn start(shared: Arc<Shared>, mut applier: Applier) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("tiffany-sync".into()).spawn(move || {
        while let Some(wishes) = next(&shared) {
            let mut news = News { read: wishes.reading, ..News::default() };
            if let Err(error) = fulfil(&mut applier, wishes, &mut news) {
                news.failed = Some(error);
            }
            let failed = news.failed.is_some();
            tell(&shared, news);
            if failed {
                break;
            }
        }
    })
}

/// Waits for something to do.
fn next(shared: &Shared) -> Option<Wishes> {
    let mut queue = shared.queue.lock();
    let mut until = None;
    loop {
        let wishes = &queue.wishes;
        if wishes.end {
            return None;
        }
        let late = until.is_some_and(|until| until <= Instant::now());
        if wishes.is_urgent() || (late && !wishes.apply.is_empty()) {
            queue.background_is_busy = true;
            return Some(std::mem::take(&mut queue.wishes));
        }
        if wishes.apply.is_empty() {
            until = None;
            shared.for_background.wait(&mut queue);
        } else {
            let until = *until.get_or_insert_with(|| Instant::now() + LINGER);
            shared.for_background.wait_until(&mut queue, until);
        }
    }
}

fn fulfil(applier: &mut Applier, wishes: Wishes, news: &mut News) -> Result<(), LogError> {
    // First the segment: commits may need it soon.
    if let Some((name, size)) = wishes.segment {
        let dir = &applier.places.commit;
        news.segment = Some(Segment::make(&*applier.disk, dir, name, size)?);
    }
    applier.apply(wishes.apply.iter())?;
    if let Some(segments) = wishes.checkpoint {
        news.released = Some(applier.checkpoint(segments)?);
    }
    for mut committed in wishes.apply.into_iter().take(SPARE) {
        committed.batch.clear();
        news.spare.push(committed.batch);
    }
    Ok(())
}

fn tell(shared: &Shared, news: News) {
    let mut queue = shared.queue.lock();
    let known = &mut queue.news;
    known.segment = news.segment.or(known.segment.take());
    known.released = news.released.or(known.released);
    known.failed = news.failed.or(known.failed.take());
    known.spare.extend(news.spare);
    known.spare.truncate(SPARE);
    queue.background_is_busy = false;
    if news.read {
        queue.reading = false;
        shared.for_reader.notify_all();
    }
    drop(queue);
    shared.for_log.notify_one();
}
