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

/// What there is to do.
enum Work {
    Wishes(Wishes),
    /// A piece of a collection of blobs.
    Piece,
}

/// The collection of blobs that is under way, and how it is paced: it rests as long as it works, and longer if there is other
/// work.
#[derive(Default)]
struct Collection {
    /// The wish it belongs to, and one that came since it began.
    number: Option<u64>,
    next: Option<u64>,
    rests_until: Option<Instant>,
}

/// Starts it. It ends when it is told to, or at the first failure.
pub(crate) fn start(shared: Arc<Shared>, mut applier: Applier) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("tiffany-sync".into()).spawn(move || {
        let mut collection = Collection::default();
        while let Some(work) = next(&shared, &collection) {
            let wishes = match work {
                Work::Wishes(wishes) => wishes,
                Work::Piece => {
                    collect(&shared, &mut applier, &mut collection);
                    continue;
                }
            };
            collection.next = wishes.collect.or(collection.next);
            let mut news = News { read: wishes.reading, ..News::default() };
            if let Err(error) = fulfil(&mut applier, wishes, &mut news) {
                news.failed = Some(error);
            }
            let failed = news.failed.is_some();
            tell(&shared, news);
            if failed {
                break;
            }
            if collection.number.is_none() {
                collection.number = collection.next.take();
            }
        }
    })
}

/// Waits for something to do.
fn next(shared: &Shared, collection: &Collection) -> Option<Work> {
    let mut queue = shared.queue.lock();
    let mut until = None;
    loop {
        let wishes = &queue.wishes;
        if wishes.end {
            return None;
        }
        let now = Instant::now();
        let late = until.is_some_and(|until| until <= now);
        if wishes.is_urgent() || (late && !wishes.apply.is_empty()) {
            queue.background_is_busy = true;
            return Some(Work::Wishes(std::mem::take(&mut queue.wishes)));
        }
        let piece_at = collection.number.filter(|_| !queue.is_ending());
        let piece_at = piece_at.map(|_| collection.rests_until.unwrap_or(now));
        if piece_at.is_some_and(|at| at <= now) {
            return Some(Work::Piece);
        }
        until = match queue.wishes.apply.is_empty() {
            true => None,
            false => Some(until.unwrap_or(now + LINGER)),
        };
        match until.into_iter().chain(piece_at).min() {
            None => shared.for_background.wait(&mut queue),
            Some(at) => drop(shared.for_background.wait_until(&mut queue, at)),
        }
    }
}

/// Does a piece of the collection. Nobody waits for it, so it does not count as busy.
fn collect(shared: &Shared, applier: &mut Applier, collection: &mut Collection) {
    let began = Instant::now();
    let done = applier.collect_some();
    let now = Instant::now();
    collection.rests_until = Some(now + (now - began));
    if let (Some(done), Some(number)) = (done, collection.number) {
        shared.queue.lock().collected = Some((number, done));
        *collection = Collection { number: collection.next.take(), ..Collection::default() };
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
