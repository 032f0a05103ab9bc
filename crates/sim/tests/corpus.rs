//! Runs everything in the fuzzer's corpus through the fuzz targets. `fuzz/README.md` says how to
//! find more.

use std::path::Path;

use tiffany_sim::fuzzing::TARGETS;

#[test]
fn nothing_in_the_corpus_breaks_the_readers() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (name, target) in TARGETS {
        let files = std::fs::read_dir(corpus.join(name)).expect("it has a corpus");
        let mut count = 0;
        for file in files {
            let bytes =
                std::fs::read(file.expect("it can be read").path()).expect("it can be read");
            target(&bytes);
            // Also try it cut, and with one byte changed.
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
}
