//! Tests that lines of real logs are read and written back byte for byte, and that the book lists
//! all fields.

use std::fs;
use std::path::{Path, PathBuf};

use tiffany_kernel::Uuid;
use tiffany_log::{Batch, Chain, Line, LogLine, RecordType};

use super::Record;
use crate::record::variants::{EffectEnd, Wake};

fn tree() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the lines of runs whose logs must stay readable forever.
fn golden_lines() -> Vec<String> {
    let golden = tree().join("crates/runtime/tests/golden");
    let files =
        ["runs-v1", "runs-v2", "runs-v3"].map(|dir| fs::read_dir(golden.join(dir)).unwrap());
    let texts = files.into_iter().flatten().map(|file| fs::read_to_string(file.unwrap().path()));
    texts
        .flat_map(|text| text.unwrap().lines().map(|line| format!("{line}\n")).collect::<Vec<_>>())
        .collect()
}

#[test]
fn lines_are_written_back_byte_for_byte() {
    let lines = golden_lines();
    assert!(lines.len() > 90, "there are {} lines", lines.len());
    let mut seen = std::collections::BTreeSet::new();
    for text in &lines {
        let line = LogLine::of_checked(text).unwrap();
        let record = Record::read(&line);
        let Some(name) = record.name() else { continue };
        seen.insert(name);
        let mut batch = Batch::new();
        let mut chain = Chain::at(Uuid(7), 1, 1, 0);
        let stamp = line.stamp().unwrap();
        let written = record.write(Line::begin(&mut batch, &mut chain, &stamp, name, line.tid));
        if let Record::RunStart(start) = &record {
            assert_eq!(start.version(), line.version, "{text}");
        }
        let fields: Vec<_> = line.fields().filter(|(name, _)| *name != "gen").collect();
        let fields: String =
            fields.iter().map(|(name, value)| format!(",\"{name}\":{value}")).collect();
        assert_eq!(std::str::from_utf8(written.into_fields()).unwrap(), fields, "{text}");
    }
    for needed in ["RunStart", "TaskSpawn", "TaskYield", "TaskWake", "EffectResult", "TaskExit"] {
        assert!(seen.contains(needed), "no golden log has a {needed}");
    }
}

#[test]
fn the_table_has_every_type_that_is_written_and_the_book_every_field() {
    let book = fs::read_to_string(tree().join("docs/src/wal-format.md")).unwrap();
    for kind in RecordType::ALL {
        let row = Record::TABLE.iter().find(|(name, _)| *name == kind.name());
        let (name, fields) = row.unwrap_or_else(|| panic!("{} is not in the table", kind.name()));
        assert!(book.contains(&format!("| `{name}` |")), "the book has no row for {name}");
        for field in *fields {
            assert!(book.contains(&format!("`{field}`")), "the book has no `{field}` ({name})");
        }
    }
    assert_eq!(Record::TABLE.len(), RecordType::ALL.len());
}

/// Makes a line of this type with these fields.
fn line(kind: &str, fields: &str) -> String {
    format!(
        "{{\"v\":1,\"seq\":2,\"ts\":\"2026-11-05T09:41:00.000000000Z\",\"type\":\"{kind}\",\
         \"task_id\":\"00000000-0000-0000-0000-000000000007\",\"tid\":1{fields},\"crc\":\"00000000\"}}\n"
    )
}

#[test]
fn records_are_interpreted_by_their_fields() {
    for (fields, expected) in [
        (r#","of":4,"step":9"#, Wake::Call(4)),
        (r#","why":"cancel","step":9"#, Wake::Cancel { force: false }),
        (r#","why":"cancel","step":9,"force":true"#, Wake::Cancel { force: true }),
        (r#","why":"cut_short","step":9"#, Wake::CutShort),
        (r#","why":"over_time","step":9"#, Wake::OverTime),
        (r#","why":"deadline","step":9"#, Wake::Deadline),
        (r#","why":"a reason of tomorrow""#, Wake::Unknown),
        (r#","why":5,"of":"x""#, Wake::Call(0)),
    ] {
        let text = line("TaskWake", fields);
        let line = LogLine::of_checked(&text).unwrap();
        let Record::TaskWake(wake) = Record::read(&line) else { panic!("{fields}") };
        assert_eq!(wake.wake(), expected, "{fields}");
    }
    for (fields, expected) in [
        (r#","of":4,"step":9,"value":1"#, "Over(Value(Some(Written(\"1\"))))"),
        (r#","of":4,"step":9,"error":{}"#, "Over(Error(Written(\"{}\")))"),
        (r#","of":4,"attempt":1,"error":{},"retry_at":"t""#, "Retry(Json(\"\\\"t\\\"\"))"),
        (r#","of":4,"attempt":1,"decided":"again""#, "Again"),
        (
            r#","of":4,"attempt":1,"decided":"failed","step":1,"error":{}"#,
            "Over(Error(Written(\"{}\")))",
        ),
    ] {
        let text = line("EffectResult", fields);
        let line = LogLine::of_checked(&text).unwrap();
        let Record::EffectResult(result) = Record::read(&line) else { panic!("{fields}") };
        let end: EffectEnd<'_> = result.end();
        assert_eq!(format!("{end:?}"), expected, "{fields}");
    }
}

#[test]
fn unknown_types_are_kept_and_fields_of_another_form_are_absent() {
    let text = line("Tomorrow", r#","of":4"#);
    assert!(matches!(Record::read(&LogLine::of_checked(&text).unwrap()), Record::Unknown));
    let text = line("TaskSpawn", r#","child":"x","name":7,"daemon":1,"more":[1]"#);
    let Record::TaskSpawn(spawn) = Record::read(&LogLine::of_checked(&text).unwrap()) else {
        panic!("another type")
    };
    assert!(spawn.child.is_none() && spawn.name.is_none() && !spawn.daemon.0);
}
