//! Runs the corpus of the fuzzer through the functions that it calls. `fuzz/README.md` describes
//! how to extend it.

use std::path::Path;

use tiffany_daemon::fuzzing::TARGETS;

#[test]
fn nothing_in_the_corpus_breaks_the_daemon() {
    // A panic on any thread counts, even where a thread or task would swallow it.
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        usual(panic);
        std::process::abort();
    }));
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (name, target) in TARGETS {
        let files = std::fs::read_dir(corpus.join(name)).expect("it has a corpus");
        let mut count = 0;
        for file in files {
            let bytes =
                std::fs::read(file.expect("it can be read").path()).expect("it can be read");
            target(&bytes);
            // Variants of each input: truncated, and with one byte changed.
            target(&bytes[..bytes.len() / 2]);
            let mut changed = bytes.clone();
            if let Some(byte) = changed.get_mut(bytes.len() / 3) {
                *byte ^= 0x20;
                target(&changed);
            }
            count += 1;
        }
        assert!(count > 2, "{name} has {count} files only");
    }
    drop(std::fs::remove_dir_all(tiffany_daemon::fuzzing::dir()));
}
