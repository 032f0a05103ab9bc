//! Writes events of the trace event format as text. It knows nothing of runs.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::{Map, Value, json};

/// Writes the events of a trace, one per line.
pub(super) struct Events<'a> {
    to: &'a mut dyn Write,
    is_first: bool,
    /// The time that timestamps count from, in nanoseconds.
    zero: Option<u64>,
    flows: u64,
    /// The slices that end at `held_at`, by track, outer ones before those inside them.
    held: BTreeMap<u64, Vec<Held>>,
    /// The end of the slices in `held`.
    held_at: u64,
}

/// A slice that is held back, because another one of the same length may turn out to contain it and
/// must be written first.
struct Held {
    depth: u8,
    event: Value,
    from: u64,
    is_inside: bool,
}

/// An activity on a track that took time.
pub(super) struct Slice<'a> {
    pub(super) track: u64,
    pub(super) name: &'a str,
    pub(super) category: &'static str,
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) args: Map<String, Value>,
}

impl<'a> Events<'a> {
    pub(super) fn begin(to: &'a mut dyn Write) -> io::Result<Events<'a>> {
        to.write_all(b"{\"traceEvents\":[\n")?;
        let (held, held_at) = (BTreeMap::new(), 0);
        Ok(Events { to, is_first: true, zero: None, flows: 0, held, held_at })
    }

    fn event(&mut self, event: &Value, at: Option<u64>, length: Option<u64>) -> io::Result<()> {
        let comma = if std::mem::take(&mut self.is_first) { "" } else { ",\n" };
        let text = event.to_string();
        let mut line = format!("{comma}{}", &text[..text.len() - 1]);
        // Microseconds with three decimal places: floating point is too inaccurate for nanoseconds
        // since 1970.
        let micros = |nanos: u64| format!("{}.{:03}", nanos / 1000, nanos % 1000);
        if let Some(at) = at {
            let zero = *self.zero.get_or_insert(at);
            line.push_str(&format!(",\"ts\":{}", micros(at.saturating_sub(zero))));
        }
        if let Some(length) = length {
            line.push_str(&format!(",\"dur\":{}", micros(length)));
        }
        line.push('}');
        self.to.write_all(line.as_bytes())
    }

    /// Names the process or a track.
    pub(super) fn name(&mut self, what: &str, track: u64, name: &str) -> io::Result<()> {
        let event =
            json!({ "ph": "M", "pid": 1, "tid": track, "name": what, "args": { "name": name } });
        self.event(&event, None, None)
    }

    /// Sets the position of a track among the others.
    pub(super) fn order(&mut self, track: u64, place: u64) -> io::Result<()> {
        let args = json!({ "sort_index": place });
        let event =
            json!({ "ph": "M", "pid": 1, "tid": track, "name": "thread_sort_index", "args": args });
        self.event(&event, None, None)
    }

    /// Adds a slice. Slices must be added in the order of their ends, inner ones before the ones
    /// that contain them.
    pub(super) fn slice(&mut self, slice: Slice<'_>) -> io::Result<()> {
        let Slice { track, name, category, from, to, args } = slice;
        if to != self.held_at {
            self.let_go()?;
            self.held_at = to;
        }
        // Timestamps count from the first event that is added, whichever is written first.
        self.zero.get_or_insert(from);
        let event = json!({
            "ph": "X", "pid": 1, "tid": track, "name": name, "cat": category, "args": args,
        });
        let depth = match category {
            "task" => 0,
            "attempt" => 2,
            _ => 1,
        };
        let of_track = self.held.entry(track).or_default();
        // Deeper slices that are not inside another one yet are inside this one.
        let before = of_track.iter().rposition(|held| !held.is_inside && held.depth <= depth);
        let place = before.map_or(0, |before| {
            let inside = of_track[before + 1..].iter().take_while(|held| held.is_inside).count();
            before + 1 + inside
        });
        of_track[place..].iter_mut().for_each(|held| held.is_inside = true);
        of_track.insert(place, Held { depth, event, from, is_inside: false });
        Ok(())
    }

    /// Writes the slices that are held back.
    fn let_go(&mut self) -> io::Result<()> {
        let to = self.held_at;
        for held in std::mem::take(&mut self.held).into_values().flatten() {
            self.event(&held.event, Some(held.from), Some(to.saturating_sub(held.from)))?;
        }
        Ok(())
    }

    /// Adds an event without duration that concerns the whole run.
    pub(super) fn instant(&mut self, track: u64, name: &str, at: u64) -> io::Result<()> {
        let event =
            json!({ "ph": "i", "s": "p", "pid": 1, "tid": track, "name": name, "cat": "run" });
        self.event(&event, Some(at), None)
    }

    /// Adds an arrow between moments of two tracks.
    pub(super) fn arrow(
        &mut self,
        name: &str,
        (from, from_at): (u64, u64),
        (to, to_at): (u64, u64),
    ) -> io::Result<()> {
        self.flows += 1;
        let id = self.flows;
        let start =
            json!({ "ph": "s", "pid": 1, "tid": from, "name": name, "cat": "flow", "id": id });
        self.event(&start, Some(from_at), None)?;
        let end = json!({
            "ph": "f", "bp": "e", "pid": 1, "tid": to, "name": name, "cat": "flow", "id": id,
        });
        self.event(&end, Some(to_at.max(from_at)), None)
    }

    pub(super) fn end(mut self, other: &Value) -> io::Result<()> {
        self.let_go()?;
        let text = format!("\n],\"displayTimeUnit\":\"ms\",\"otherData\":{other}}}\n");
        self.to.write_all(text.as_bytes())
    }
}
