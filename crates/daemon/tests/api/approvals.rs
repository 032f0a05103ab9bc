//! Questions that wait for a person.

use std::time::{Duration, Instant};

use crate::kit::{Dir, House, LIMIT};

#[test]
fn an_approval_is_that_of_the_run_which_is_named_whatever_that_is_called() {
    let dir = Dir::new();
    let house = House::open(&dir);
    for id in ["team/a", "shop", "shop/2"] {
        house.submit("ask", id, "\"ship it?\"");
    }
    let open = || house.get("/api/v1/approvals").json()["approvals"].as_array().unwrap().len();
    let begun = Instant::now();
    while open() < 3 {
        assert!(begun.elapsed() < LIMIT, "not all of them ask");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(house.post("/api/v1/approvals/team%2Fa/approve", "").status, 200);
    house.wait_for("team%2Fa", "completed");
    // The name fits two questions, so it is refused.
    let both = house.post("/api/v1/approvals/shop%2F2/approve", "");
    assert_eq!(both.problem(), (400, "TFY0156".into()));
    assert_eq!(open(), 2);
    assert_eq!(house.post("/api/v1/approvals/shop/approve", "").status, 200);
    house.wait_for("shop", "completed");
}

#[test]
fn who_is_wrong_about_a_question_keeps_nobody_from_listing_runs() {
    let dir = Dir::new();
    let house = House::open(&dir);
    let run = house.submit("wait", "w", "null").json()["uuid"].as_str().unwrap().to_owned();
    std::thread::scope(|scope| {
        for number in 0..40 {
            let path = format!("/api/v1/approvals/{run}/{}/approve", 9000 + number);
            let house = &house;
            scope.spawn(move || assert_eq!(house.post(&path, "").problem().0, 404));
        }
        // Each of these polls for a question that may still come: four seconds in total.
        let begun = Instant::now();
        for _ in 0..5 {
            assert_eq!(house.get("/api/v1/runs").json()["total"], 1);
        }
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    });
}

#[test]
fn a_person_decides_a_question() {
    let dir = Dir::new();
    let house = House::open(&dir);
    house.submit("ask", "a", "\"ship it?\"");
    let open = house.get("/api/v1/approvals").json();
    assert_eq!(open["approvals"][0]["question"], "ship it?");
    let id = open["approvals"][0]["id"].as_str().unwrap();
    let decided =
        house.post(&format!("/api/v1/approvals/{id}/approve"), r#"{"because":"why not"}"#);
    assert_eq!(decided.json()["by"], "local", "{decided:?}");
    assert_eq!(house.wait_for("a", "completed")["value"], "yes");
    let late = |house: &House| {
        let again = house.post(&format!("/api/v1/approvals/{id}/reject"), "");
        assert_eq!((again.status, &again.json()["code"]), (409, &"TFY0182".into()), "{again:?}");
        assert!(again.body.contains("local said `yes`"), "{again:?}");
    };
    late(&house);
    house.close();
    late(&House::open(&dir));
}

#[test]
fn who_says_no_cannot_choose_something_else_by_it() {
    let dir = Dir::new();
    let house = House::open(&dir);
    house.submit("ask", "a", "\"ship it?\"");
    let id =
        house.get("/api/v1/approvals").json()["approvals"][0]["id"].as_str().unwrap().to_owned();
    for path in [id.clone(), id.replace('/', "%2F"), "a".into()] {
        let path = format!("/api/v1/approvals/{path}/reject");
        let refused = house.post(&path, r#"{"choice":"yes"}"#);
        assert_eq!(refused.problem(), (400, "TFY0156".into()), "{path}");
    }
    assert_eq!(house.get("/api/v1/runs/a").json()["state"], "live");
    let decided = house.post(&format!("/api/v1/approvals/{id}/reject"), "").json();
    assert_eq!(decided["choice"], "no");
    assert_eq!(house.wait_for("a", "completed")["value"], "no");
}

#[test]
fn a_question_is_named_by_its_id_or_by_its_run() {
    let dir = Dir::new();
    let house = House::open(&dir);
    for (run, path) in [("a", "a/{record}"), ("b", "b"), ("c", "{run}%2F{record}")] {
        house.submit("ask", run, "\"ship it?\"");
        let open = house.get("/api/v1/approvals").json();
        let (uuid, record) = open["approvals"][0]["id"].as_str().unwrap().split_once('/').unwrap();
        let path = path.replace("{run}", uuid).replace("{record}", record);
        let decided = house.post(&format!("/api/v1/approvals/{path}/approve"), "");
        assert_eq!(decided.status, 200, "{path}: {decided:?}");
        assert_eq!(house.wait_for(run, "completed")["value"], "yes");
    }
    let over = house.post("/api/v1/approvals/a/approve", "");
    assert_eq!(over.problem(), (409, "TFY0182".into()));
    assert!(over.body.contains("`a/2` is decided: local said `yes` at 20"), "{over:?}");
    house.submit("echo", "e", "1");
    let never = house.post("/api/v1/approvals/e/approve", "");
    assert_eq!(never.problem(), (404, "TFY0181".into()));
    let nobody = house.post("/api/v1/approvals/nobody/reject", "");
    assert_eq!(nobody.problem(), (404, "TFY0041".into()));
    house.submit("ask_twice", "d", "null");
    let several = house.post("/api/v1/approvals/d/approve", "");
    assert_eq!(several.problem(), (400, "TFY0156".into()));
}
