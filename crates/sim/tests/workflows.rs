//! Workflows of the runtime's own tests, which use everything that durable runs can do, crashed
//! everywhere.

use crate::kit::{self, Written};

fn check(name: &str, written: Written) {
    let (_, report) = kit::ALL.iter().find(|(known, _)| *known == name).expect("it is there");
    let report = report(written, 40).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(report.crashes > 80, "{report}");
    println!("{name}: {report}");
}

macro_rules! workflows {
    ($($name:ident)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn with_every_call_written_down() {
                check(stringify!($name), Written::Every);
            }

            #[test]
            fn with_outward_calls_written_down() {
                check(stringify!($name), Written::Outward);
            }
        }
    )*};
}

workflows! { steps stubborn talk sharing racing ends bank }
