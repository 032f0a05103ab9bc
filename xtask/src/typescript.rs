//! The TypeScript client: its types compared with the OpenAPI document, its build, and its tests against a real daemon.

use crate::Shop;
use crate::dashboard::{INSTALL, install_node, npm_in};

/// The program that the tests talk to, with the features that it has in tests.
const PROGRAM: [&str; 5] = ["build", "--quiet", "--workspace", "--example", "orders"];

/// Checks all of it.
pub(crate) fn check(shop: &Shop) -> Result<(), String> {
    let place = shop.root.join("clients/typescript");
    install_node(shop)?;
    shop.step("what the client is built with", &mut npm_in(shop, &place, &INSTALL))?;
    shop.step("the program that the client talks to", &mut shop.cargo(PROGRAM))?;
    let program = shop.target().join("debug/examples/orders");
    let run = |name: &str, script: &[&str]| {
        let mut npm = npm_in(shop, &place, script);
        shop.step(name, npm.env("TIFFANY_PROGRAM", &program))
    };
    run("types of the client, fresh", &["run", "--silent", "check"])?;
    run("tests of the client", &["test", "--silent"])
}

/// Writes the types of the HTTP API.
pub(crate) fn generate(shop: &Shop, _: &[String]) -> Result<(), String> {
    let place = shop.root.join("clients/typescript");
    install_node(shop)?;
    shop.step("the program that serves the document", &mut shop.cargo(PROGRAM))?;
    let program = shop.target().join("debug/examples/orders");
    let mut npm = npm_in(shop, &place, &["run", "--silent", "generate"]);
    shop.step("types of the client", npm.env("TIFFANY_PROGRAM", program))
}
