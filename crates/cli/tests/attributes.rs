//! Tags, attributes and deadlines on the command line.

use crate::kit::Home;

#[test]
fn submit_gives_them_and_ls_and_show_have_them() {
    let home = Home::new();
    let submit = |id: &str, rest: &[&str]| {
        let known = ["submit", "echo", "--id", id, "--input", "1", "--wait", "--json"];
        home.orders(&[&known[..], rest].concat()).ok()
    };
    submit(
        "a",
        &[
            "--tag",
            "gold",
            "--tag",
            "eu",
            "--attribute",
            "customer=ada",
            "--attribute",
            "amount=17",
        ],
    );
    submit("b", &["--attribute", "amount=\"17\"", "--attribute", "paid=true", "--deadline", "2h"]);
    submit("c", &[]);
    let ids = |rest: &[&str]| {
        let listed = home.run(&[&["ls", "--sort", "id", "--json"], rest].concat()).ok();
        listed.lines().iter().map(|run| run["id"].as_str().unwrap().to_owned()).collect::<String>()
    };
    for (rest, expected) in [
        (&["--tag", "gold"][..], "a"),
        (&["--tag", "gold", "--tag", "new"], ""),
        (&["--attribute", "amount=17"], "a"),
        (&["--attribute", "amount=\"17\""], "b"),
        (&["--attribute", "amount>=10", "--attribute", "customer=ada"], "a"),
        (&["--attribute", "paid=true"], "b"),
        (&[], "abc"),
    ] {
        assert_eq!(ids(rest), expected, "{rest:?}");
    }
    let listed = home.run(&["ls", "--tag", "gold"]).ok();
    assert!(listed.stdout.contains("TAGS, ATTRIBUTES"), "{listed:?}");
    assert!(listed.stdout.contains("eu, gold, amount=17, customer=ada"), "{listed:?}");
    let shown = home.run(&["show", "a"]).ok().stdout;
    for line in ["tags", "eu, gold", "attribute", "amount=17", "customer=ada"] {
        assert!(shown.contains(line), "{shown}");
    }
    let shown = home.run(&["show", "b", "--json"]).ok().lines().remove(0);
    assert_eq!(shown["attributes"], serde_json::json!({ "amount": "17", "paid": true }));
    assert!(shown["deadline"].as_str().unwrap() > shown["started"].as_str().unwrap());
    assert!(home.run(&["show", "b"]).ok().stdout.contains("deadline"));
    let plain = home.run(&["ls", "--function", "nap"]).ok();
    assert!(!plain.stdout.contains("TAGS"), "{plain:?}");
}

#[test]
fn what_is_not_allowed_is_refused() {
    let home = Home::new();
    let submit = |rest: &[&str]| {
        let known = ["submit", "echo", "--id", "a", "--input", "1", "--wait"];
        home.orders(&[&known[..], rest].concat())
    };
    submit(&["--attribute", "a b=1"]).failed(1, "TFY0270");
    submit(&["--tag", ""]).failed(1, "TFY0270");
    submit(&["--deadline", "2020-01-01"]).failed(1, "TFY0273");
    assert_eq!(submit(&["--deadline", "soon"]).code, 2);
    assert_eq!(home.run(&["ls", "--attribute", "amount"]).code, 2);
}
