//! Records that a replay doesn't compare: the tags and attributes of a run, and annotations. An
//! annotation names the call that it is about and the instruction that its task follows, which are
//! tracked here.

use tiffany_kernel::{About, Annotation, AnnotationKind, Attributes, CallRecord, Tid, Time};

use crate::run_log::journal::Journal;
use crate::run_log::page::Page;
use crate::run_log::small_map::SmallMap;
use tiffany_log::{Line, LogLine, RecordType};
use tiffany_records::attributes::{json_of_tags, json_of_values};
use tiffany_records::key::Number;
use tiffany_records::record::{self, Encode, Inline, Record, Text, Value as Written};

/// What annotations of each task refer to.
#[derive(Clone, Default)]
pub(crate) struct References {
    /// The last call of the task that concerned the world.
    calls: SmallMap<Tid, Number>,
    /// The instruction that the task follows.
    instructions: SmallMap<Tid, Number>,
}

impl References {
    /// Notes a call of a task that concerns the outside world.
    #[inline]
    pub(crate) fn called(&mut self, tid: Tid, number: Number) {
        match self.calls.get_mut(tid) {
            Some(last) => *last = number,
            None => self.calls.insert(tid, number),
        }
    }

    /// Notes that a task was spawned, which follows the instruction of its parent.
    pub(crate) fn spawned(&mut self, parent: Tid, child: Tid) {
        if let Some(instruction) = self.instructions.get(parent).copied() {
            self.instructions.insert(child, instruction);
        }
    }

    /// Notes the instruction of a task.
    pub(crate) fn instructed(&mut self, tid: Tid, number: Number) {
        self.instructions.insert(tid, number);
    }

    /// Forgets a task that has ended.
    pub(crate) fn ended(&mut self, tid: Tid) {
        self.calls.remove(tid);
        self.instructions.remove(tid);
    }

    /// Adds a record of a log other than a call.
    pub(crate) fn add(&mut self, line: &LogLine<'_>, record: &Record<'_>, generation: u32) {
        let number = Number { generation, seq: line.seq };
        match record {
            Record::TaskSpawn(spawn) if spawn.error.is_none() => {
                spawn.child.into_iter().for_each(|child| self.spawned(line.tid, Tid(child)));
            }
            Record::InstructionStart(_) => self.instructed(line.tid, number),
            record if record.is_end() => self.ended(line.tid),
            _ => {}
        }
    }
}

/// Whether this is an annotation, or the tags and attributes of a run.
pub(crate) fn is_note(call: &CallRecord) -> bool {
    matches!(call.about, About::Attributes(_) | About::Annotation(_))
}

impl Journal {
    /// Writes a call whose record is all that there is of it.
    pub(crate) fn write_note(
        &mut self,
        page: &mut Page,
        (tid, clock): (Tid, Time),
        call: &CallRecord,
    ) {
        match &call.about {
            About::Attributes(whole) => {
                let kind = RecordType::Attributes;
                let (line, sites) = page.line_and_sites(&mut self.chain, clock, kind, tid);
                write_attributes(line, whole, Some(sites.find(&call.at)));
            }
            About::Annotation(annotation) => {
                let kind = record_type(annotation.kind);
                let fields = self.annotation(tid, annotation);
                let (line, sites) = page.line_and_sites(&mut self.chain, clock, kind, tid);
                let at = Text::Json(sites.find(&call.at));
                let annotated = record::InstructionStart { at: Some(at), ..fields };
                // All annotations have the same fields.
                let seq = annotated.write(line).end();
                if annotation.kind == AnnotationKind::InstructionStart {
                    let generation = self.chain.generation();
                    self.references.instructed(tid, Number { generation, seq });
                }
            }
            _ => {}
        }
    }

    /// Repeats the tags and attributes of a finished run, so that they are found at the end of its file.
    pub(super) fn last_attributes(&mut self, page: &mut Page, clock: Time, whole: &Attributes) {
        let line = page.line(&mut self.chain, clock, RecordType::Attributes, Tid(1));
        write_attributes(line, whole, None);
    }

    fn annotation<'a>(&self, tid: Tid, annotation: &'a Annotation) -> record::InstructionStart<'a> {
        let generation = self.chain.generation();
        let other = |number: Number| {
            (number.generation != generation).then_some(u64::from(number.generation))
        };
        let given = annotation.of.map(|of| Number { generation: of.generation, seq: of.seq });
        let of = given.or_else(|| self.references.calls.get(tid).copied());
        let instruction = self.references.instructions.get(tid).copied();
        // One that begins an instruction follows no other.
        let instruction =
            instruction.filter(|_| annotation.kind != AnnotationKind::InstructionStart);
        record::InstructionStart {
            of: of.map(|of| of.seq),
            of_gen: of.and_then(other),
            instruction: instruction.map(|instruction| instruction.seq),
            instruction_gen: instruction.and_then(other),
            value: Some(Written::Plain(&annotation.value)),
            at: None,
        }
    }
}

fn write_attributes(line: Line<'_>, whole: &Attributes, at: Option<&str>) {
    let (tags, values) = (json_of_tags(&whole.tags), json_of_values(&whole.values));
    let attributes = record::Attributes {
        tags: Some(Inline(&tags)),
        attributes: Some(Inline(&values)),
        at: at.map(Text::Json),
    };
    attributes.write(line).end();
}

fn record_type(kind: AnnotationKind) -> RecordType {
    RecordType::parse(kind.name()).expect("each kind is a type")
}
