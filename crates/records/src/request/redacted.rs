//! Redacts answers. The match over them has no wildcard, so that each new answer must say here
//! which of its parts may be secret. Names of runs and functions never are, because secret ones are
//! refused.

use serde_json::value::RawValue;

use super::Answer;
use crate::attributes::{json_of_values, of_record};
use crate::redact::Redactions;
use crate::request::approval::{Approval, OpenApproval};
use crate::request::summary::{RunDetail, RunSummary, TaskSummary};

impl Answer {
    /// Redacts secrets in the answer.
    pub fn redacted(self, rules: &Redactions) -> Answer {
        match self {
            Answer::Done
            | Answer::Run { .. }
            | Answer::Forked { .. }
            | Answer::Settled(_)
            | Answer::Streaming(_)
            | Answer::Found(_)
            | Answer::Recorded { .. }
            // Their labels are redacted when they are made.
            | Answer::Metrics(_)
            | Answer::LongTurns(_)
            // It contains only names of runs and numbers of bytes.
            | Answer::Lost(_)
            | Answer::Collection(..) => self,
            Answer::Status(mut status) => {
                for paused in &mut status.paused {
                    paused.error = rules.error(paused.error.clone());
                }
                Answer::Status(status)
            }
            Answer::Runs(mut page) => {
                page.runs.iter_mut().for_each(|run| run.redact(rules));
                Answer::Runs(page)
            }
            Answer::Shown(mut run) => {
                run.redact(rules);
                Answer::Shown(run)
            }
            Answer::Value(json) => Answer::Value(cleaned(json, rules)),
            Answer::Doubts(mut doubts) => {
                doubts.iter_mut().for_each(|doubt| clean(&mut doubt.step, rules));
                Answer::Doubts(doubts)
            }
            Answer::Approvals(mut open) => {
                open.iter_mut().for_each(|open| open.redact(rules));
                Answer::Approvals(open)
            }
            Answer::Approval(mut approval) => {
                let Approval { choice, by, why, .. } = &mut approval;
                why.iter_mut().chain([choice, by]).for_each(|text| clean(text, rules));
                Answer::Approval(approval)
            }
            Answer::Warned { answer, warning } => {
                Answer::Warned { answer: Box::new(answer.redacted(rules)), warning }
            }
            Answer::Each(results) => {
                let cleaned = results.into_iter().map(|each| each.map_err(|why| rules.error(why)));
                Answer::Each(cleaned.collect())
            }
        }
    }
}

impl RunSummary {
    fn redact(&mut self, rules: &Redactions) {
        self.error.iter_mut().for_each(|error| clean(&mut error.message, rules));
        self.waits.iter_mut().for_each(|waits| clean(waits, rules));
        // Tags and the names of attributes with secrets in them are refused.
        if !self.attributes.is_empty() {
            let json = json_of_values(&self.attributes);
            self.attributes = of_record(None, Some(&rules.json(&json))).values;
        }
    }
}

impl RunDetail {
    fn redact(&mut self, rules: &Redactions) {
        self.summary.redact(rules);
        for TaskSummary { name, waits_for, .. } in &mut self.tasks {
            name.iter_mut().chain(waits_for).for_each(|text| clean(text, rules));
        }
        self.value = self.value.take().map(|json| cleaned(json, rules));
        self.recorded = self.recorded.take().map(|recorded| match recorded {
            Ok(json) => Ok(cleaned(json, rules)),
            Err(error) => Err(rules.error(error)),
        });
    }
}

impl OpenApproval {
    /// A person who knows the original text of a redacted choice can still choose it.
    fn redact(&mut self, rules: &Redactions) {
        clean(&mut self.question, rules);
        self.choices.iter_mut().chain(&mut self.task).for_each(|name| clean(name, rules));
        self.payload = self.payload.take().map(|json| cleaned(json, rules));
    }
}

fn clean(text: &mut String, rules: &Redactions) {
    if let std::borrow::Cow::Owned(cleaned) = rules.text(text) {
        *text = cleaned;
    }
}

fn cleaned(json: Box<RawValue>, rules: &Redactions) -> Box<RawValue> {
    let cleaned = rules.json(json.get()).into_owned();
    RawValue::from_string(cleaned).unwrap_or(json)
}
