//! Waiting for descriptors nobody told us anything about: closed ones, reused ones, files, and ours
//! through `read_wait`. Never a hang, never a spin.

use std::cell::RefCell;
use std::fs::File;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::bounded::check;
use tiffany::io::Async;
use tiffany::net::{TcpListener, UdpSocket, UnixStream};
use tiffany::{ErrorKind, blocking, cancel, gather, read_wait, sleep, spawn, timeout, write_wait};

/// A descriptor by its number alone.
#[derive(Clone, Copy)]
struct Number(RawFd);

impl AsRawFd for Number {
    fn as_raw_fd(&self) -> RawFd {
        self.0
    }
}

fn pipe() -> (PipeReader, PipeWriter) {
    std::io::pipe().unwrap()
}

#[test]
fn a_bad_number_is_an_error() {
    check(async {
        for number in [-1, RawFd::MIN, 1_000_000] {
            let error = read_wait(&Number(number)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BadDescriptor, "{number}");
            assert!(error.call_site().unwrap().file.ends_with("descriptors.rs"));
        }
    });
}

#[test]
fn a_descriptor_closed_while_a_task_waits_is_an_error_soon() {
    check(async {
        let (reader, _writer) = pipe();
        let number = Number(reader.as_raw_fd());
        let waits = spawn(async move { read_wait(&number).await }).await;
        sleep(Duration::from_millis(10)).await;
        drop(reader);
        let began = Instant::now();
        let error = waits.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DescriptorClosed);
        assert!(began.elapsed() < Duration::from_millis(1500), "{:?}", began.elapsed());
    });
}

#[test]
fn steady_events_do_not_put_the_check_off() {
    check(async {
        let (reader, _writer) = pipe();
        let number = Number(reader.as_raw_fd());
        let waits = spawn(async move { read_wait(&number).await }).await;
        let ticks = spawn(async {
            loop {
                sleep(Duration::from_millis(300)).await;
            }
        })
        .await;
        sleep(Duration::from_millis(10)).await;
        drop(reader);
        let began = Instant::now();
        let error = waits.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DescriptorClosed);
        assert!(began.elapsed() < Duration::from_millis(1500), "{:?}", began.elapsed());
        cancel(&ticks).await;
    });
}

#[test]
fn a_number_that_names_another_file_now() {
    check(async {
        let (reader, _writer) = pipe();
        let number = Number(reader.as_raw_fd());
        let old = spawn(async move { read_wait(&number).await }).await;
        sleep(Duration::from_millis(10)).await;
        // The same number, another pipe, while somebody still waits for the first.
        let (other, mut other_writer) = pipe();
        let mut replaced = OwnedFd::from(reader);
        rustix::io::dup2(&other, &mut replaced).unwrap();
        let new = spawn(async move { read_wait(&number).await }).await;
        let error = timeout(Duration::from_millis(500), old).await.unwrap().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DescriptorClosed);
        other_writer.write_all(b"x").unwrap();
        timeout(Duration::from_millis(500), new).await.unwrap().unwrap().unwrap();
    });
}

#[test]
fn a_number_used_again_when_nobody_waits_is_just_another_file() {
    check(async {
        let (reader, mut writer) = pipe();
        let number = Number(reader.as_raw_fd());
        writer.write_all(b"x").unwrap();
        read_wait(&number).await.unwrap();
        let (other, mut other_writer) = pipe();
        let mut replaced = OwnedFd::from(reader);
        rustix::io::dup2(&other, &mut replaced).unwrap();
        assert!(timeout(Duration::from_millis(10), read_wait(&number)).await.is_err());
        other_writer.write_all(b"y").unwrap();
        read_wait(&number).await.unwrap();
    });
}

#[test]
fn a_regular_file_is_ready_at_once() {
    check(async {
        let file = File::open("/proc/self/exe").unwrap();
        read_wait(&file).await.unwrap();
        write_wait(&file).await.unwrap();
        assert!(Async::new(file).is_err());
    });
}

#[test]
fn waiters_on_one_descriptor_are_served_in_order() {
    check(async {
        let (reader, mut writer) = pipe();
        let reader = Rc::new(reader);
        let order = Rc::new(RefCell::new(Vec::new()));
        let mut tasks = Vec::new();
        for name in 0..4 {
            let (reader, order) = (Rc::clone(&reader), Rc::clone(&order));
            tasks.push(
                spawn(async move {
                    read_wait(&*reader).await.unwrap();
                    let mut byte = [0];
                    (&*reader).read_exact(&mut byte).unwrap();
                    order.borrow_mut().push((name, byte[0]));
                })
                .await,
            );
        }
        sleep(Duration::from_millis(5)).await;
        // Two bytes serve two; the other two wait for theirs.
        writer.write_all(&[1, 2]).unwrap();
        sleep(Duration::from_millis(20)).await;
        assert_eq!(*order.borrow(), [(0, 1), (1, 2)]);
        writer.write_all(&[3, 4]).unwrap();
        gather(tasks).await.unwrap();
        assert_eq!(*order.borrow(), [(0, 1), (1, 2), (2, 3), (3, 4)]);
    });
}

#[test]
fn a_cancelled_waiter_does_not_take_the_turn_of_the_next() {
    check(async {
        let (reader, mut writer) = pipe();
        let reader = Rc::new(reader);
        let (one, two) = (Rc::clone(&reader), Rc::clone(&reader));
        let first = spawn(async move { read_wait(&*one).await }).await;
        let second = spawn(async move { read_wait(&*two).await }).await;
        sleep(Duration::from_millis(5)).await;
        writer.write_all(b"x").unwrap();
        cancel(&first).await;
        timeout(Duration::from_secs(1), second).await.unwrap().unwrap().unwrap();
    });
}

/// As many as a busy program may have: to search for each among the others would take very long.
#[test]
fn many_waiters_on_one_descriptor_are_cancelled_quickly() {
    const MANY: usize = 30_000;
    check(async {
        let (reader, mut writer) = pipe();
        let reader = Rc::new(reader);
        let mut tasks = Vec::new();
        for _ in 0..MANY {
            let reader = Rc::clone(&reader);
            tasks.push(spawn(async move { read_wait(&*reader).await }).await);
        }
        sleep(Duration::from_millis(5)).await;
        let began = Instant::now();
        // The last first, which is the longest search; one in the middle stays.
        let stays = tasks.swap_remove(MANY / 2);
        for task in tasks.iter().rev() {
            cancel(task).await;
        }
        sleep(Duration::from_millis(5)).await;
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        writer.write_all(b"x").unwrap();
        stays.await.unwrap().unwrap();
    });
}

#[test]
fn reading_and_writing_are_waited_for_apart() {
    check(async {
        let (one, _two) = std::os::unix::net::UnixStream::pair().unwrap();
        let one = Rc::new(one);
        let same = Rc::clone(&one);
        let reads = spawn(async move { read_wait(&*same).await }).await;
        sleep(Duration::from_millis(5)).await;
        // That it can be written says nothing to the reader.
        write_wait(&*one).await.unwrap();
        assert!(timeout(Duration::from_millis(20), reads).await.is_err());
    });
}

#[test]
fn waiting_for_a_socket_of_ours_by_hand_does_not_spin() {
    check(async {
        let (near, far) = UnixStream::pair().unwrap();
        near.write_all(b"x").await.unwrap();
        read_wait(&far).await.unwrap();
        // Read behind the socket's back: what it knows is old now.
        let mut byte = [0];
        rustix::io::read(&far, &mut byte).unwrap();
        let waits = timeout(Duration::from_millis(20), read_wait(&far)).await;
        assert!(waits.is_err(), "there is nothing to read");
        near.write_all(b"y").await.unwrap();
        read_wait(&far).await.unwrap();
    });
}

#[test]
fn a_dropped_socket_tells_those_who_wait_for_it() {
    check(async {
        let (near, _far) = UnixStream::pair().unwrap();
        let number = Number(near.as_raw_fd());
        let waits = spawn(async move { read_wait(&number).await }).await;
        sleep(Duration::from_millis(5)).await;
        let began = Instant::now();
        drop(near);
        let error = waits.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DescriptorClosed);
        assert!(began.elapsed() < Duration::from_millis(500), "{:?}", began.elapsed());
    });
}

#[test]
fn a_number_taken_over_by_a_socket_of_ours_tells_those_who_waited() {
    check(async {
        let (reader, _writer) = pipe();
        let number = Number(reader.as_raw_fd());
        let waits = spawn(async move { read_wait(&number).await }).await;
        sleep(Duration::from_millis(5)).await;
        drop(reader);
        // One of these gets the number that was just closed.
        let sockets: Vec<_> = (0..4).map(|_| UnixStream::pair().unwrap()).collect();
        let error = timeout(Duration::from_secs(2), waits).await.unwrap().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DescriptorClosed);
        for (near, far) in &sockets {
            near.write_all(b"z").await.unwrap();
            far.read_exact(&mut [0]).await.unwrap();
        }
    });
}

#[test]
fn a_raw_descriptor_that_becomes_ours_keeps_its_waiters() {
    check(async {
        let (reader, mut writer) = pipe();
        let number = Number(reader.as_raw_fd());
        let waits = spawn(async move { read_wait(&number).await }).await;
        sleep(Duration::from_millis(5)).await;
        let reader = Async::new(reader).unwrap();
        writer.write_all(b"x").unwrap();
        timeout(Duration::from_secs(1), waits).await.unwrap().unwrap().unwrap();
        let twice = Async::new(reader.get_ref()).unwrap_err();
        assert_eq!(twice.kind(), std::io::ErrorKind::AlreadyExists);
        assert_eq!(reader.read_with(|mut pipe| pipe.read(&mut [0; 4])).await.unwrap(), 1);
    });
}

#[test]
fn a_descriptor_given_back_can_be_used_again() {
    check(async {
        let (reader, mut writer) = pipe();
        let reader = Async::new(reader).unwrap().into_inner();
        let reader = Async::new(reader).unwrap();
        writer.write_all(b"x").unwrap();
        reader.readable().await.unwrap();
        let raw = reader.into_inner().into_raw_fd();
        read_wait(&Number(raw)).await.unwrap();
    });
}

/// Processor time of this thread, which is the one that drives the runtime.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[test]
fn idle_costs_nothing() {
    check(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let (near, far) = UnixStream::pair().unwrap();
        let (reader, _writer) = pipe();
        let tasks = [
            spawn(async move { listener.accept().await.map(drop) }).await,
            spawn(async move { socket.recv(&mut [0]).await.map(drop) }).await,
            spawn(async move { far.read(&mut [0]).await.map(drop) }).await,
            spawn(async move { read_wait(&reader).await.map_err(std::io::Error::other) }).await,
        ];
        sleep(Duration::from_millis(5)).await;
        let before = cpu_time();
        sleep(Duration::from_millis(300)).await;
        let spent = cpu_time() - before;
        assert!(spent < Duration::from_millis(5), "{spent:?} of processor time in 300 ms");
        for task in &tasks {
            cancel(task).await;
        }
        drop(near);
    });
}

#[test]
fn a_timer_of_many_days_is_no_trouble_to_one_who_waits() {
    // Without the time limit of the other tests, which would be the nearer timer.
    tiffany::run(async {
        let far = spawn(sleep(Duration::from_secs(100 * 24 * 60 * 60))).await;
        let work = || std::thread::sleep(Duration::from_millis(5));
        blocking(work).await.unwrap();
        cancel(&far).await;
    })
    .unwrap();
}
