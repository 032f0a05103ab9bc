//! `serve` without descriptors or threads: requests are refused with an error that asks to try again, and answered when
//! there are some again.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::kit::served::{FREE, Served, ask, preloaded};
use crate::kit::{Home, orders};
use serde_json::json;

/// While a step holds every descriptor, clients get an error that asks them to retry.
#[test]
fn a_step_that_takes_all_descriptors_does_not_make_http_hang() {
    let home = Home::new();
    let file = home.0.join("hoard");
    std::fs::write(&file, "").unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 256; exec \"$0\" \"$@\""]).arg(orders()).current_dir(&home.0);
    command.args(["--dir", "orders", "serve", "--json"]).args(FREE).env("ORDERS_VERSION", "ends");
    let served = Served::by(command);
    let body = json!({"function": "hoard", "id": "h", "input": file}).to_string();
    assert_eq!(served.ask("POST", "/api/v1/runs", &body).0, 201);
    let pid = served.child.id();
    home.until("descriptors are left", || {
        std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count() >= 256
    });
    // A closed descriptor is free for a moment, so some requests succeed.
    let refused = std::cell::Cell::new(0);
    home.until("requests are answered while no descriptor is left", || {
        let begun = Instant::now();
        let (status, told) = served.ask("GET", "/healthz", "");
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        assert!(status == 200 || (status, &told["code"]) == (503, &json!("TFY0250")), "{told}");
        refused.set(refused.get() + u32::from(status == 503));
        refused.get() == 3
    });
    std::fs::remove_file(&file).unwrap();
    home.until("it does not answer again", || {
        ask(&served.address, "GET", "/api/v1/runs/h", "")
            .is_ok_and(|(_, shown)| shown["state"] == "completed")
    });
}

/// A library that prevents new threads while a file exists.
const NO_THREADS: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
int pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*f)(void *), void *x) {
    if (access(getenv("NO_THREADS"), F_OK) == 0) return EAGAIN;
    return ((__typeof__(&pthread_create))dlsym(RTLD_NEXT, "pthread_create"))(t, a, f, x);
}
"#;

#[test]
fn a_daemon_without_threads_asks_clients_to_try_again() {
    let home = Home::new();
    let library = preloaded(&home, NO_THREADS);
    let none = home.0.join("none");
    let served = Served::with(&home, &orders(), &FREE, |command| {
        command.env("LD_PRELOAD", &library).env("NO_THREADS", &none);
    });
    std::fs::write(&none, "").unwrap();
    let (status, told) = served.ask("GET", "/api/v1/runs", "");
    assert_eq!((status, &told["code"]), (503, &json!("TFY0029")), "{told}");
    std::fs::remove_file(&none).unwrap();
    assert_eq!(served.ask("GET", "/api/v1/runs", "").0, 200);
}
