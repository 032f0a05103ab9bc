//! The threat: the process dies and a child that it forked lives on, as the workers of Python's
//! `multiprocessing` do.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tiffany_daemon::Daemon;

use crate::kit::{self, Dir, House, LIMIT, read_answer};

/// Not a test: a process of the next one. It forks a child when it is told to.
#[test]
fn forker() {
    let Some(dir) = std::env::var_os("DAEMON_FORK") else { return };
    let house = House::of(dir.as_ref(), |dir| Daemon::new(kit::program(), dir));
    println!("\nlistens {}", house.address);
    std::io::stdin().read_line(&mut String::new()).unwrap();
    // SAFETY: the child calls only functions that a forked child may.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: as above.
        unsafe {
            libc::sleep(60);
            libc::_exit(0);
        }
    }
    println!("\nforked {child}");
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn clients_see_that_a_killed_process_is_gone_while_its_child_lives() {
    let dir = Dir::new();
    let mut parent = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "forked_children::forker", "--nocapture"])
        .env("DAEMON_FORK", &dir.0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(parent.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut told = |what: &str| {
        lines.find_map(|line| line.strip_prefix(what).map(str::to_owned)).expect("it is told")
    };
    let mut http = TcpStream::connect(told("listens ")).unwrap();
    http.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    assert_eq!(read_answer(&mut http).status, 200);
    let mut control = UnixStream::connect(dir.0.join("control.sock")).unwrap();
    control.write_all(b"nothing\n").unwrap();
    let mut answer = String::new();
    BufReader::new(&control).read_line(&mut answer).unwrap();
    assert!(answer.contains("the request cannot be read"), "{answer}");
    parent.stdin.take().unwrap().write_all(b"\n").unwrap();
    let child: libc::pid_t = told("forked ").parse().unwrap();
    parent.kill().unwrap();
    parent.wait().unwrap();
    let begun = Instant::now();
    http.set_read_timeout(Some(LIMIT / 6)).unwrap();
    control.set_read_timeout(Some(LIMIT / 6)).unwrap();
    let ends = [http.read(&mut [0; 64]), control.read(&mut [0; 64])];
    let waited = begun.elapsed();
    // SAFETY: the child of the killed process lives until here.
    let lived = unsafe { libc::kill(child, libc::SIGKILL) } == 0;
    assert!(lived, "the child ended with its parent");
    for end in ends {
        // A connection that is reset is gone as well.
        assert!(!end.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock));
    }
    assert!(waited < Duration::from_secs(2), "{waited:?}");
}
