//! Answers without what the rules of redaction take out. There is no rest in what they are told apart by: who adds an answer has to say here what of it may be
//! secret. Names of runs and functions never are: those are refused.

use serde_json::value::RawValue;

use super::Answer;
use crate::redact::Redactions;
use crate::request::approval::{Approval, OpenApproval};
use crate::request::summary::{RunDetail, RunSummary, TaskSummary};

impl Answer {
    /// The answer without what the rules take out.
    pub fn redacted(self, rules: &Redactions) -> Answer {
        match self {
            Answer::Done
            | Answer::Run { .. }
            | Answer::Forked { .. }
            | Answer::Settled(_)
            | Answer::Streaming(_)
            | Answer::Found(_)
            | Answer::Recorded { .. }
            // What has labels takes secrets out of them.
            | Answer::Metrics(_)
            | Answer::LongTurns(_)
            // It names runs and bytes.
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
    /// Who knows a choice that has a secret in it can still make it, by its real words.
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
