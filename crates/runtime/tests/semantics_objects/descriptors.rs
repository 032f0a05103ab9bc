//! I/O: ReadWait and WriteWait on raw descriptors. Sockets of the library have tests of their own.

use std::cell::Cell;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::time::Instant;

use rustix::event::{EventfdFlags, eventfd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use tiffany::testing::TestScheduler;
use tiffany::{
    ErrorKind, Runtime, Tid, cancel, gather, read_wait, sleep, spawn, timeout, write_wait,
    yield_now,
};

use super::{Notes, assert_names, ms, secs};

fn pipe() -> (OwnedFd, OwnedFd) {
    pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC).unwrap()
}

fn pair() -> (OwnedFd, OwnedFd) {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap()
}

fn write(fd: &OwnedFd, bytes: &[u8]) -> usize {
    rustix::io::write(fd, bytes).unwrap()
}

fn read_byte(fd: &OwnedFd) -> Option<u8> {
    let mut byte = [0];
    match rustix::io::read(fd, &mut byte) {
        Ok(1) => Some(byte[0]),
        _ => None,
    }
}

/// Writes until there is no more room.
fn fill(fd: &OwnedFd) {
    while rustix::io::write(fd, &[0; 4096]).is_ok() {}
}

/// A number that claims to be a descriptor.
struct Raw(RawFd);

impl AsRawFd for Raw {
    fn as_raw_fd(&self) -> RawFd {
        self.0
    }
}

/// "ReadWait and WriteWait on any descriptor": ready at once, for each kind there is.
#[test]
fn any_kind_of_descriptor_that_is_ready() {
    let (reader, writer) = pipe();
    write(&writer, b"x");
    let (left, right) = pair();
    write(&left, b"x");
    let counter: OwnedFd = eventfd(1, EventfdFlags::CLOEXEC).unwrap();
    let file: OwnedFd = std::fs::File::open("/proc/self/exe").unwrap().into();
    let null: OwnedFd = std::fs::File::open("/dev/null").unwrap().into();
    let results = tiffany::run(async move {
        vec![
            ("pipe", read_wait(&reader).await),
            ("pipe", write_wait(&writer).await),
            ("socket", read_wait(&right).await),
            ("socket", write_wait(&right).await),
            ("eventfd", read_wait(&counter).await),
            ("eventfd", write_wait(&counter).await),
            ("file", read_wait(&file).await),
            ("device", read_wait(&null).await),
        ]
    });
    for (kind, result) in results.unwrap() {
        assert_eq!(result, Ok(()), "{kind}");
    }
}

/// "ReadWait and WriteWait on any descriptor": a task waits until there is something to read, or room to
/// write, and the others go on meanwhile.
#[test]
fn waits_until_it_is_ready() {
    let ((reader, writer), (left, right)) = (pipe(), pair());
    fill(&left);
    let notes = Notes::new();
    let seen = notes.clone();
    tiffany::run(async move {
        let (a, b) = (notes.clone(), notes.clone());
        let reading = spawn(async move {
            read_wait(&reader).await.unwrap();
            a.add("read");
            read_byte(&reader)
        })
        .await;
        let writing = spawn(async move {
            write_wait(&left).await.unwrap();
            b.add("written");
            write(&left, b"x")
        })
        .await;
        for _ in 0..200 {
            yield_now().await;
        }
        notes.add("nothing yet");
        write(&writer, b"7");
        assert_eq!(reading.await, Ok(Some(b'7')));
        let mut sink = [0; 1 << 16];
        while rustix::io::read(&right, &mut sink).is_ok() {}
        assert_eq!(writing.await, Ok(1));
    })
    .unwrap();
    assert_eq!(seen.take(), ["nothing yet", "read", "written"]);
}

/// "ReadWait and WriteWait on any descriptor": the end of a stream is something to read.
#[test]
fn the_other_side_is_gone() {
    let ((reader, writer), (left, right)) = (pipe(), pair());
    tiffany::run(async move {
        let reading = spawn(async move { read_wait(&reader).await.map(|()| read_byte(&reader)) });
        let reading = reading.await;
        let socket = spawn(async move { read_wait(&left).await.map(|()| read_byte(&left)) }).await;
        yield_now().await;
        drop((writer, right));
        assert_eq!(reading.await, Ok(Ok(None)));
        assert_eq!(socket.await, Ok(Ok(None)));
    })
    .unwrap();
}

/// "several waiters on one are served in order": each gets one byte, the first who waited the first.
#[test]
fn several_waiters_are_served_in_order() {
    for chunks in [vec![&b"abc"[..]], vec![b"a", b"b", b"c"], vec![b"ab", b"c"]] {
        let (reader, writer) = pipe();
        let reader = Rc::new(reader);
        let notes = Notes::new();
        let seen = notes.clone();
        tiffany::run(async move {
            let mut tasks = Vec::new();
            for n in 0..3 {
                let (reader, notes) = (reader.clone(), notes.clone());
                tasks.push(
                    spawn(async move {
                        read_wait(&*reader).await.unwrap();
                        notes.add((n, read_byte(&reader).map(char::from)));
                    })
                    .await,
                );
            }
            for chunk in chunks {
                yield_now().await;
                write(&writer, chunk);
                sleep(ms(2)).await;
            }
            gather(tasks).await.unwrap();
        })
        .unwrap();
        assert_eq!(seen.take(), [(0, Some('a')), (1, Some('b')), (2, Some('c'))]);
    }
}

/// "several waiters on one are served in order": one who gives up leaves the line to the others.
#[test]
fn a_waiter_that_is_cancelled_leaves_the_line() {
    let (reader, writer) = pipe();
    let reader = Rc::new(reader);
    tiffany::run(async move {
        let (one, two) = (reader.clone(), reader.clone());
        let first = spawn(async move { read_wait(&*one).await }).await;
        let second = spawn(async move { read_wait(&*two).await.map(|()| read_byte(&two)) }).await;
        yield_now().await;
        cancel(&first).await;
        write(&writer, b"x");
        assert_eq!(second.await, Ok(Ok(Some(b'x'))));
        let late = timeout(ms(1), read_wait(&*reader)).await;
        assert_eq!(late.unwrap_err().kind(), ErrorKind::TimedOut);
        write(&writer, b"y");
        assert_eq!(read_wait(&*reader).await, Ok(()));
    })
    .unwrap();
}

/// "several waiters on one": readers and writers of one socket do not stand in each other's way.
#[test]
fn both_directions_at_once() {
    let (left, right) = pair();
    let left = Rc::new(left);
    tiffany::run(async move {
        let other = left.clone();
        let reading = spawn(async move { read_wait(&*other).await.map(|()| read_byte(&other)) });
        let reading = reading.await;
        yield_now().await;
        assert_eq!(write_wait(&*left).await, Ok(()));
        write(&right, b"z");
        assert_eq!(reading.await, Ok(Ok(Some(b'z'))));
    })
    .unwrap();
}

/// "a closed or bad one is an error in the waiter, never a hang": numbers that are no descriptor.
#[test]
fn a_bad_descriptor() {
    let closed = {
        // A high number, which no other test of this process is given meanwhile.
        let (reader, _writer) = pipe();
        rustix::io::fcntl_dupfd_cloexec(&reader, 700).unwrap().as_raw_fd()
    };
    for fd in [-1, -7, i32::MIN, 1_000_000, i32::MAX, closed] {
        TestScheduler::new()
            .run(async move {
                let line = line!() + 1;
                let error = read_wait(&Raw(fd)).await.unwrap_err();
                assert_names(&error, "TFY0011", Tid(1), "read_wait", line);
                assert!(error.message().contains(&fd.to_string()), "{error}");
                let line = line!() + 1;
                let error = write_wait(&Raw(fd)).await.unwrap_err();
                assert_names(&error, "TFY0011", Tid(1), "write_wait", line);
            })
            .unwrap();
    }
}

/// "a closed or bad one is an error in the waiter, never a hang": closed behind our back, which the system
/// does not tell, is noticed within about a second; all who wait for it are told.
#[test]
fn closed_while_tasks_wait() {
    let (reader, _writer) = pipe();
    let started = Instant::now();
    tiffany::run(async move {
        let fd = reader.as_raw_fd();
        let first = spawn(async move { read_wait(&Raw(fd)).await }).await;
        let second = spawn(async move { write_wait(&Raw(fd)).await }).await;
        yield_now().await;
        yield_now().await;
        drop(reader);
        for (task, tid) in [(first, Tid(2)), (second, Tid(3))] {
            let error = task.await.unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::DescriptorClosed);
            assert_eq!(error.task().map(|task| task.tid), Some(tid), "{error}");
        }
    })
    .unwrap();
    assert!(started.elapsed() < secs(3), "{:?}", started.elapsed());
}

/// "a closed or bad one is an error in the waiter": also when another descriptor has its number by then.
#[test]
fn closed_and_opened_again() {
    let (reader, _writer) = pipe();
    tiffany::run(async move {
        let mut number = reader;
        let fd = number.as_raw_fd();
        let waiting = spawn(async move { read_wait(&Raw(fd)).await }).await;
        yield_now().await;
        yield_now().await;
        let (other, writer) = pipe();
        rustix::io::dup2(&other, &mut number).unwrap();
        let error = waiting.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DescriptorClosed);
        write(&writer, b"n");
        assert_eq!(read_wait(&number).await, Ok(()), "the new one under the old number works");
    })
    .unwrap();
}

/// "use a step" ("ReadWait, WriteWait … are errors there"): in a durable run, at their line.
#[test]
fn not_in_a_durable_run() {
    let (reader, writer) = pipe();
    TestScheduler::durable_rules(Runtime::builder())
        .run(async move {
            let line = line!() + 1;
            let error = read_wait(&reader).await.unwrap_err();
            assert_names(&error, "TFY0020", Tid(1), "read_wait", line);
            let line = line!() + 1;
            let error = write_wait(&writer).await.unwrap_err();
            assert_names(&error, "TFY0020", Tid(1), "write_wait", line);
        })
        .unwrap();
}

/// "so no kind of work starves another": a descriptor is served although tasks are always ready.
#[test]
fn is_served_while_others_are_busy() {
    let (reader, writer) = pipe();
    let mut runtime = Runtime::new().unwrap();
    let turns = runtime
        .run(async move {
            let served = Rc::new(Cell::new(false));
            let done = Rc::clone(&served);
            let reading = async move {
                read_wait(&reader).await.unwrap();
                done.set(true);
            };
            drop(spawn(reading).await);
            yield_now().await;
            write(&writer, b"x");
            let mut turns = 0;
            while !served.get() && turns < 100_000 {
                yield_now().await;
                turns += 1;
            }
            turns
        })
        .unwrap();
    assert!(turns < 1_000, "{turns}");
}
