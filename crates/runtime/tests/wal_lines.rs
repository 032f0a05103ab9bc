//! The threat: a value that breaks the line it is in. Whatever text, number or bytes go into a line, the line is
//! JSON, one line, and the same values come out; and whatever bytes are read, the reader gives an answer.

use proptest::prelude::*;
use tiffany::wal::{Batch, BlobForm, BlobHash, Chain, Flaw, Payload, Reader, RecordType, Stamp};
use tiffany::{Tid, Uuid};

/// Text of all kinds: controls, quotation marks, every plane of Unicode.
fn odd_text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[\\x00-\\x1f\"\\\\/\u{7f}-\u{a0}]{0,12}",
        "(\\\\|\"|\n|\r|,\"crc\":\"00000000\"}|\u{2028}|😀){0,6}",
    ]
}

fn field_name() -> impl Strategy<Value = String> {
    "[a-z_$][a-z0-9_.]{0,8}"
}

#[derive(Clone, Debug)]
enum Field {
    Str(String),
    Uint(u64),
    Int(i64),
    Flag(bool),
    Json(String),
    Bytes(Vec<u8>),
}

fn field() -> impl Strategy<Value = Field> {
    prop_oneof![
        odd_text().prop_map(Field::Str),
        any::<u64>().prop_map(Field::Uint),
        any::<i64>().prop_map(Field::Int),
        any::<bool>().prop_map(Field::Flag),
        prop::collection::vec(odd_text(), 0..4)
            .prop_map(|texts| Field::Json(serde_json::to_string_pretty(&texts).unwrap())),
        prop::collection::vec(any::<u8>(), 0..80).prop_map(Field::Bytes),
    ]
}

proptest! {
    #[test]
    fn what_goes_into_a_line_comes_out_of_it(
        run in any::<u128>(),
        nanos in any::<u64>(),
        tid in any::<u64>(),
        lines in prop::collection::vec(prop::collection::vec((field_name(), field()), 0..5), 1..6),
    ) {
        const LIMIT: usize = 40;
        let mut batch = Batch::with_blob_limit(LIMIT);
        let mut chain = Chain::new(Uuid::from_random(run));
        let now = Stamp::from_unix_nanos(nanos);
        for fields in &lines {
            let mut line = batch.line(&mut chain, &now, RecordType::Message, Tid(tid));
            for (name, field) in fields {
                line = match field {
                    Field::Str(text) => line.str(name, text),
                    Field::Uint(number) => line.uint(name, *number),
                    Field::Int(number) => line.int(name, *number),
                    Field::Flag(value) => line.flag(name, *value),
                    Field::Json(json) => line.json(name, json),
                    Field::Bytes(bytes) => line.bytes(name, bytes),
                };
            }
            line.end();
        }
        prop_assert_eq!(batch.text().matches('\n').count(), lines.len());
        let mut reader = Reader::new(batch.text().as_bytes(), Some(Uuid::from_random(run)));
        for (at, fields) in lines.iter().enumerate() {
            let record = reader.next().unwrap().unwrap();
            let parsed: serde_json::Value = serde_json::from_str(record.json).unwrap();
            prop_assert_eq!(&parsed["type"], "Message");
            prop_assert_eq!(record.seq, at as u64 + 1);
            prop_assert_eq!(record.tid, Tid(tid));
            prop_assert_eq!(record.stamp(), Some(now));
            let skip = usize::from(at == 0); // the generation
            let read: Vec<_> = record.fields().skip(skip).collect();
            prop_assert_eq!(read.len(), fields.len());
            for ((name, raw), (expected_name, field)) in read.iter().zip(fields) {
                prop_assert_eq!(name, expected_name);
                let value: serde_json::Value = serde_json::from_str(raw).unwrap();
                match field {
                    Field::Str(text) => prop_assert_eq!(value.as_str(), Some(text.as_str())),
                    Field::Uint(number) => prop_assert_eq!(value.as_u64(), Some(*number)),
                    Field::Int(number) => prop_assert_eq!(value.as_i64(), Some(*number)),
                    Field::Flag(flag) => prop_assert_eq!(value.as_bool(), Some(*flag)),
                    Field::Json(json) if json.len() > LIMIT => {
                        let hash = BlobHash::of(json.as_bytes()).to_string();
                        prop_assert_eq!(value["$blob"].as_str(), Some(hash.as_str()));
                    }
                    Field::Json(json) => prop_assert_eq!(
                        value,
                        serde_json::from_str::<serde_json::Value>(json).unwrap()
                    ),
                    Field::Bytes(bytes) if bytes.len() > LIMIT => {
                        prop_assert_eq!(value["len"].as_u64(), Some(bytes.len() as u64));
                    }
                    Field::Bytes(_) => prop_assert!(value["$base64"].is_string()),
                }
            }
        }
        prop_assert!(reader.next().is_none());
        prop_assert_eq!(reader.checker().chain(), Some(&chain));
    }

    #[test]
    fn texts_and_bytes_come_back_by_name(text in odd_text(), bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let mut batch = Batch::with_blob_limit(40);
        let mut chain = Chain::new(Uuid::from_random(3));
        let now = Stamp::from_unix_nanos(0);
        batch.line(&mut chain, &now, RecordType::Message, Tid(1)).str("a", &text).bytes("b", &bytes).end();
        let record = Reader::new(batch.text().as_bytes(), None).next().unwrap().unwrap();
        prop_assert_eq!(record.str("a").unwrap(), text.as_str());
        let expected = if bytes.len() > 40 {
            let hash = BlobHash::of(&bytes);
            Payload::Blob { hash, len: bytes.len() as u64, form: BlobForm::Bytes }
        } else {
            Payload::Bytes(bytes)
        };
        prop_assert_eq!(record.payload("b"), Some(expected));
    }

    #[test]
    fn a_reader_survives_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        for record in Reader::new(&bytes, None) {
            prop_assert!(record.is_err());
        }
    }

    #[test]
    fn a_reader_survives_any_change_of_a_line(
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        end in any::<prop::sample::Index>(),
    ) {
        let mut batch = Batch::new();
        let mut chain = Chain::new(Uuid::from_random(3));
        let now = Stamp::from_unix_nanos(0);
        for _ in 0..3 {
            let line = batch.line(&mut chain, &now, RecordType::EffectResult, Tid(1));
            line.json("value", r#"{"a":[1,"}"],"b":null}"#).str("text", "é\"\\").end();
        }
        let mut bytes = batch.text().as_bytes().to_vec();
        let at = at.index(bytes.len());
        let same = bytes[at] == byte;
        bytes[at] = byte;
        let changed = Reader::new(&bytes, None).filter_map(Result::ok).count();
        prop_assert_eq!(changed == 3, same);
        bytes.truncate(end.index(bytes.len()));
        for record in Reader::new(&bytes, None).flatten() {
            for (name, _) in record.fields() {
                let _ = (record.str(name), record.uint(name), record.payload(name));
            }
        }
    }
}

#[test]
fn types_nobody_knows_are_passed_over() {
    let mut batch = Batch::new();
    let mut chain = Chain::new(Uuid::from_random(3));
    let now = Stamp::from_unix_nanos(0);
    for kind in RecordType::ALL {
        batch.line(&mut chain, &now, *kind, Tid(1)).end();
    }
    let kinds: Vec<_> =
        Reader::new(batch.text().as_bytes(), None).map(|r| r.unwrap().record_type()).collect();
    assert_eq!(kinds, RecordType::ALL.iter().copied().map(Some).collect::<Vec<_>>());
    assert_eq!(RecordType::parse("FromTheFuture"), None);
}

#[test]
fn a_line_that_is_not_ended_never_was() {
    let mut batch = Batch::with_blob_limit(10);
    let mut chain = Chain::new(Uuid::from_random(3));
    let now = Stamp::from_unix_nanos(0);
    let line = |batch: &mut Batch, chain: &mut Chain| {
        batch.line(chain, &now, RecordType::Message, Tid(1)).str("text", "a").end()
    };
    line(&mut batch, &mut chain);
    let before = batch.text().to_string();
    let dropped = batch.line(&mut chain, &now, RecordType::Message, Tid(1));
    drop(dropped.json("value", "\"a long value\""));
    assert_eq!(batch.text(), before);
    assert_eq!(line(&mut batch, &mut chain), 2);
    let records: Result<Vec<_>, _> = Reader::new(batch.text().as_bytes(), None).collect();
    assert_eq!(records.unwrap().len(), 2);
    assert_eq!(batch.len(), batch.text().len(), "the blob of the dropped line is still there");
}

#[test]
fn a_file_under_another_runs_name_is_found_out() {
    let mut batch = Batch::new();
    let mut chain = Chain::new(Uuid::from_random(3));
    let now = Stamp::from_unix_nanos(0);
    batch.line(&mut chain, &now, RecordType::RunStart, Tid(1)).end();
    let other = Some(Uuid::from_random(4));
    let broken = Reader::new(batch.text().as_bytes(), other).next().unwrap().unwrap_err();
    assert_eq!(broken.flaw, Flaw::OtherRun);
    // The same lines with the name exchanged do not fit their checksums.
    let (from, to) = (Uuid::from_random(3).to_string(), Uuid::from_random(4).to_string());
    let forged = batch.text().replace(&from, &to);
    let broken = Reader::new(forged.as_bytes(), other).next().unwrap().unwrap_err();
    assert_eq!(broken.flaw, Flaw::Checksum);
}
