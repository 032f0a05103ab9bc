//! What is kept and what is lost: by run, in all, in bytes; and that a reader who does not read costs nothing.

use tiffany::Runtime;
use tiffany::pal::{Detail, LogLevel, Settings, Subscription, Told, Wanted, log, output, progress};
use tiffany::yield_now;

/// What a reader is told by now: how many it lost at once, and the messages after that.
fn told(events: &mut Subscription) -> (u64, Vec<String>) {
    let (mut lost, mut messages) = (0, Vec::new());
    while let Some(told) = events.try_next() {
        match told {
            Told::Lost { count } => {
                assert!(messages.is_empty(), "what is lost is the oldest");
                lost += count;
            }
            Told::Event(event) => messages.push(event.message.to_string()),
        }
    }
    (lost, messages)
}

async fn numbered(count: u64) {
    for number in 1..=count {
        log(LogLevel::Info, number.to_string()).await;
    }
}

#[test]
fn one_who_never_reads_loses_the_oldest_and_is_told_how_many() {
    let settings = Settings { in_all: 100, ..Settings::default() };
    let mut runtime = Runtime::builder().activity(settings).build().expect("a runtime");
    let mut events = runtime.activity().subscribe(Wanted::new());
    runtime.run(numbered(10_000)).expect("it ends well");
    // The root came and went, and the run ended, besides.
    let (lost, messages) = told(&mut events);
    assert_eq!((lost, messages.len()), (10_003 - 100, 100));
    assert_eq!(messages[97], "10000");
    assert_eq!(events.lost(), lost);
    assert_eq!(runtime.activity().counts().lost, lost);
    runtime.run(numbered(1)).expect("it ends well");
    assert_eq!(told(&mut events).0, 0, "what is lost is told once");
}

#[test]
fn a_noisy_run_takes_nothing_from_a_quiet_one() {
    let settings = Settings { per_run: 10, in_all: 20, ..Settings::default() };
    let mut runtime = Runtime::builder().activity(settings).build().expect("a runtime");
    let hub = runtime.activity();
    let quiet = runtime.start(numbered(3));
    let id = quiet.id();
    runtime.finish(quiet).expect("it ends well");
    runtime.run(numbered(1_000)).expect("it ends well");
    let (lost, messages) = told(&mut hub.subscribe(Wanted::new().run(id).from(0)));
    assert_eq!((lost, messages), (0, ["", "1", "2", "3", "", ""].map(str::to_owned).to_vec()));
    let (lost, messages) = told(&mut hub.subscribe(Wanted::new().from(0)));
    assert_eq!((lost, messages.len()), (6 + 1_003 - 20, 20), "all together have a limit too");
}

#[test]
fn who_wants_every_turn_takes_nothing_from_who_does_not() {
    let settings = Settings { turns: 50, ..Settings::default() };
    let mut runtime = Runtime::builder().activity(settings).build().expect("a runtime");
    let mut every = runtime.activity().subscribe(Wanted::new().detail(Detail::All));
    let mut notable = runtime.activity().subscribe(Wanted::new());
    runtime
        .run(async {
            progress(1, 2, "before").await;
            for _ in 0..10_000 {
                yield_now().await;
            }
            progress(2, 2, "after").await;
        })
        .expect("it ends well");
    assert_eq!(
        told(&mut notable),
        (0, ["", "before", "after", "", ""].map(str::to_owned).to_vec())
    );
    let (lost, messages) = told(&mut every);
    // 10,003 turns and 5 others.
    assert_eq!((lost, messages.len()), (10_003 - 50, 55));
}

#[test]
fn a_long_message_is_cut_between_characters_and_says_so() {
    let settings = Settings { message: 9, ..Settings::default() };
    let mut runtime = Runtime::builder().activity(settings).build().expect("a runtime");
    let mut events = runtime.activity().subscribe(Wanted::new());
    runtime.run(output("stdout", "grün ".repeat(1_000))).expect("it ends well");
    let outputs = std::iter::from_fn(|| events.try_next()).filter_map(|told| match told {
        Told::Event(event) if !event.message.is_empty() => Some(event),
        _ => None,
    });
    let outputs: Vec<_> = outputs.collect();
    assert_eq!(outputs.len(), 1);
    assert_eq!((&*outputs[0].message, outputs[0].cut), ("grün gr", Some(6_000)));
}

#[test]
fn bytes_have_a_limit_whatever_is_shown() {
    let settings = Settings { bytes: 200_000, ..Settings::default() };
    let mut runtime = Runtime::builder().activity(settings).build().expect("a runtime");
    let hub = runtime.activity();
    let _idle = hub.subscribe(Wanted::new());
    for _ in 0..20 {
        runtime
            .run(async {
                for _ in 0..100 {
                    output("stdout", "x".repeat(10_000)).await;
                }
            })
            .expect("it ends well");
        assert!(hub.counts().bytes <= 2 * 200_000, "{:?}", hub.counts());
    }
}

#[test]
fn runs_that_are_over_are_forgotten() {
    let settings = Settings { bytes: 1 << 20, ..Settings::default() };
    let mut runtime = Runtime::builder().activity(settings).build().expect("a runtime");
    let hub = runtime.activity();
    let mut last = None;
    for _ in 0..20_000 {
        let run = runtime.start(progress(1, 1, "x"));
        last = Some(run.id());
        runtime.finish(run).expect("it ends well");
    }
    assert!(hub.counts().bytes <= 2 << 20, "{:?}", hub.counts());
    assert_eq!(hub.counts().published, 80_000);
    let last = last.expect("there were some");
    let (lost, messages) = told(&mut hub.subscribe(Wanted::new().run(last).from(0)));
    assert_eq!((lost, messages.len()), (0, 4), "the last ones are known");
}
