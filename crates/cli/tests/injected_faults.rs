//! The threat: system calls of the daemon fail for a while, those that lock the audit and those that
//! accept clients. Nothing is changed without a line in the audit, and no client hangs.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::kit::served::{FREE, Served, preloaded};
use crate::kit::{Home, orders};

/// A library that makes a call fail: a file has the name of the call, the error, and how often.
const FAULTS: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>
static int left = -1;
static int fails(const char *call) {
    char name[64];
    int number, times;
    FILE *file = fopen(getenv("FAULTS"), "re");
    if (!file) { left = -1; return 0; }
    int read = fscanf(file, "%63s %d %d", name, &number, &times);
    fclose(file);
    if (read != 3 || strcmp(name, call) != 0) return 0;
    if (left < 0) left = times;
    if (left == 0) return 0;
    left--;
    errno = number;
    return 1;
}
static int is_audit(int fd) {
    char link[64], name[512];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, name, sizeof name - 1);
    if (length <= 0) return 0;
    name[length] = 0;
    return strstr(name, "audit.jsonl") != NULL;
}
int flock(int fd, int how) {
    if (!(how & LOCK_UN) && is_audit(fd) && fails("flock")) return -1;
    return ((int (*)(int, int))dlsym(RTLD_NEXT, "flock"))(fd, how);
}
int accept4(int fd, struct sockaddr *address, socklen_t *length, int flags) {
    if (fails("accept4")) return -1;
    return ((__typeof__(&accept4))dlsym(RTLD_NEXT, "accept4"))(fd, address, length, flags);
}
"#;

/// A daemon whose calls can be made to fail.
struct Faulty {
    served: Served,
    home: Home,
}

impl Faulty {
    fn start() -> Faulty {
        let home = Home::new();
        let library = preloaded(&home, FAULTS);
        let faults = home.0.join("faults");
        let served = Served::with(&home, &orders(), &FREE, |command| {
            command.env("LD_PRELOAD", &library).env("FAULTS", &faults);
        });
        Faulty { served, home }
    }

    /// From now on the call fails this often.
    fn fail(&self, call: &str, number: i32, times: u32) {
        // The library notices that it is another fault.
        self.work();
        self.served.ask("GET", "/healthz", "");
        let new = self.home.0.join("faults.new");
        std::fs::write(&new, format!("{call} {number} {times}\n")).unwrap();
        std::fs::rename(new, self.home.0.join("faults")).unwrap();
    }

    fn work(&self) {
        drop(std::fs::remove_file(self.home.0.join("faults")));
    }

    fn submit(&self, id: &str) -> (u16, serde_json::Value) {
        let body = json!({"function": "echo", "id": id, "input": 1}).to_string();
        self.served.ask("POST", "/api/v1/runs", &body)
    }
}

const EINTR: i32 = 4;
const EMFILE: i32 = 24;
const ENOLCK: i32 = 37;

#[test]
fn a_lock_of_the_audit_that_fails_refuses_changes_until_it_works_again() {
    let daemon = Faulty::start();
    assert_eq!(daemon.submit("first").0, 201);
    daemon.fail("flock", ENOLCK, 1_000_000);
    for id in ["second", "third"] {
        let (status, told) = daemon.submit(id);
        assert_eq!((status, &told["code"]), (503, &json!("TFY0179")), "{told}");
    }
    let refused = daemon.home.run(&["submit", "echo", "--id", "fourth", "--input", "1"]);
    assert!(refused.code != 0 && refused.stderr.contains("TFY0179"), "{refused:?}");
    assert_eq!(daemon.served.ask("GET", "/api/v1/runs", "").1["total"], 1);
    daemon.work();
    assert_eq!(daemon.submit("second").0, 201);
    let audit = daemon.home.run(&["audit"]).ok();
    for name in ["first", "second", "audit_failed"] {
        assert!(audit.stdout.contains(name), "{audit:?}");
    }
}

#[test]
fn a_lock_of_the_audit_that_is_interrupted_is_taken_all_the_same() {
    let daemon = Faulty::start();
    daemon.fail("flock", EINTR, 20);
    assert_eq!(daemon.submit("first").0, 201);
    daemon.work();
    let audit = daemon.home.run(&["audit"]).ok();
    assert!(audit.stdout.contains("first") && !audit.stdout.contains("audit_failed"), "{audit:?}");
}

#[test]
fn clients_are_accepted_as_soon_as_there_are_descriptors_or_signals_end() {
    let daemon = Faulty::start();
    for (number, times) in [(EINTR, 20), (EMFILE, 20)] {
        daemon.fail("accept4", number, times);
        let begun = Instant::now();
        daemon.home.run(&["ls"]).ok();
        // The first client meets the fault, and the other one is accepted as well.
        let mut control = UnixStream::connect(daemon.home.log().join("control.sock")).unwrap();
        control.write_all(b"nothing\n").unwrap();
        control.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        assert!(std::io::Read::read(&mut control, &mut [0; 64]).unwrap() > 0);
        let (status, _) = daemon.served.ask("GET", "/healthz", "");
        assert!([200, 503].contains(&status), "{status}");
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        daemon.work();
        assert_eq!(daemon.submit(&format!("after {number}")).0, 201);
    }
}
