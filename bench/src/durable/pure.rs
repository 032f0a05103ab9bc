//! `pure`: one run that draws random numbers. Each number is a line of its log, and none waits for
//! the disk. The end of the run does, so all lines are safe when the time is taken.
//!
//! `raw` is one thread that makes lines of the same form and length, with checksums. It writes them
//! in pieces of 256 KiB to a file that was filled before and to another one that grows, as a log
//! does, and ends with one fdatasync of the first.

use std::fs::File;
use std::io::{self, Write};
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::disk::Ring;
use super::place::{self, Place, Scratch};
use super::work;
use crate::harness::{Better, Contender, Measure, Mode, Sample, Taken, Target};

pub(super) fn measure(place: &Rc<Place>) -> Measure {
    let (ours, raw) = (Rc::clone(place), Rc::clone(place));
    Measure {
        name: "pure",
        what: "calls of one run that are recorded and need no sync",
        unit: "records/s",
        better: Better::Higher,
        targets: vec![Target::Of("raw", 0.6)],
        rounds: 7,
        contenders: vec![
            Contender::fallible("tiffany", move |mode| self::tiffany(&ours, mode)),
            Contender::fallible("raw", move |mode| self::raw(&raw, mode)),
        ],
    }
}

fn records(mode: Mode) -> u64 {
    mode.pick(200_000, 1_000)
}

fn sample(records: u64, elapsed: Duration, bytes: u64) -> Sample {
    Sample::of(records as f64 / elapsed.as_secs_f64())
        .beside("bytes", bytes as f64 / records as f64)
}

fn tiffany(here: &Place, mode: Mode) -> Taken {
    let (scratch, records) = (here.fresh("pure")?, records(mode));
    let mut runtime = work::open(&scratch.log())?;
    // The first run makes the log create its segments.
    work::one(&mut runtime, "randoms", "before", records * 2)?;
    place::settle();
    let start = Instant::now();
    work::one(&mut runtime, "randoms", "run", records)?;
    let elapsed = start.elapsed();
    drop(runtime);
    Ok(sample(records, elapsed, scratch.run_bytes()? / 3))
}

fn raw(place: &Place, mode: Mode) -> Taken {
    let (scratch, records) = (place.fresh("raw")?, records(mode));
    let (elapsed, bytes) = by_hand(&scratch, records).map_err(|error| error.to_string())?;
    Ok(sample(records, elapsed, bytes))
}

const PIECE: usize = 256 << 10;

fn by_hand(scratch: &Scratch, records: u64) -> io::Result<(Duration, u64)> {
    let mut ring = Ring::make(scratch.path())?;
    let mut run = File::create(scratch.path().join("run"))?;
    let mut lines: Vec<u8> = Vec::with_capacity(PIECE + 4096);
    let (mut crc, mut number, mut bytes) = (0, 7_u64, 0);
    let start = Instant::now();
    for seq in 1..=records {
        number = number.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let begin = lines.len();
        lines.extend_from_slice(br#"{"v":1,"seq":"#);
        push(&mut lines, seq);
        lines.extend_from_slice(
            br#","ts":"2026-11-16T01:48:08.123456789Z","type":"TaskYield","task_id":"01234567-89ab-4def-8123-456789abcdef","tid":1,"call":"random","number":""#,
        );
        push(&mut lines, number);
        lines.extend_from_slice(br#"","at":"bench/src/durable/work.rs:100""#);
        crc = crc32c::crc32c_append(crc, &lines[begin..]);
        lines.extend_from_slice(br#","crc":""#);
        const DIGITS: &[u8] = b"0123456789abcdef";
        lines.extend((0..8).rev().map(|digit| DIGITS[(crc >> (4 * digit)) as usize & 15]));
        lines.extend_from_slice(b"\"}\n");
        if lines.len() >= PIECE || seq == records {
            ring.write(&lines)?;
            run.write_all(&lines)?;
            bytes += lines.len() as u64;
            lines.clear();
        }
    }
    ring.sync()?;
    Ok((start.elapsed(), bytes))
}

fn push(text: &mut Vec<u8>, mut number: u64) {
    let (mut digits, mut at) = ([0; 20], 20);
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    text.extend_from_slice(&digits[at..]);
}
