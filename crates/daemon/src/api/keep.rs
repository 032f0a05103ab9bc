//! Removes and compacts finished runs, one by one or by a rule. The work is done on a separate
//! thread, in small batches, with the code that the command line uses.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use tiffany::control::{Answer, Request};
use tiffany::history::Outcome;
use tiffany::retention::{Candidate, Keeper, Plan, Pruned, Retention};
use tiffany::units;
use tiffany::{TaskError, Uuid};

use crate::app::{App, unexpected};
use crate::audit::{Audit, Intent};
use crate::error::DaemonError;
use crate::http::change;
use crate::http::change::at_leisure;
use crate::http::change::{Noted, Signed};
use crate::http::{Answered, Problem};
use crate::http::{Json, Named, given, whole};

pub(super) async fn remove(State(app): State<App>, Named(name): Named<String>) -> Answered {
    let run = app.find_whole(&name).await?;
    match app.ask(Request::Remove { runs: vec![run] }).await? {
        Answer::Each(each) => match each.into_iter().next() {
            Some(Err(error)) => Err(error.into()),
            _ => Ok(StatusCode::NO_CONTENT.into_response()),
        },
        other => Err(unexpected(&other)),
    }
}

pub(super) async fn compact(State(app): State<App>, Named(name): Named<String>) -> Answered {
    let run = app.find_whole(&name).await?;
    change::begin(None).await?;
    let pruned = with_keeper(&app, move |keeper| keeper.compact(&[run])).await?;
    if let Some((_, error)) = pruned.refused.first() {
        return Err(error.clone().into());
    }
    Ok(axum::Json(told(&pruned)).into_response())
}

/// A retention rule, with the options of `tiffany rm --older-than …`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Rule {
    #[serde(deserialize_with = "given")]
    older_than: Option<String>,
    #[serde(deserialize_with = "few")]
    keep: Option<u64>,
    #[serde(deserialize_with = "given")]
    max_size: Option<String>,
    #[serde(deserialize_with = "given")]
    compact_after: Option<String>,
    state: Vec<Outcome>,
    dry_run: bool,
}

fn few<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    whole(from).map(Some)
}

impl Rule {
    fn retention(&self) -> Result<Retention, Problem> {
        let bad = |name: &str, why: String| DaemonError::BadRequest(format!("`{name}`: {why}"));
        let mut rule = Retention::new();
        if let Some(age) = &self.older_than {
            rule = rule.older_than(units::time(age).map_err(|why| bad("older_than", why))?);
        }
        if let Some(runs) = self.keep {
            rule = rule.keep(usize::try_from(runs).unwrap_or(usize::MAX));
        }
        if let Some(size) = &self.max_size {
            rule = rule.max_bytes(units::bytes(size).map_err(|why| bad("max_size", why))?);
        }
        if let Some(age) = &self.compact_after {
            rule = rule.compact_after(units::time(age).map_err(|why| bad("compact_after", why))?);
        }
        if rule == Retention::new() {
            let message = "a rule has `older_than`, `keep`, `max_size` or `compact_after`";
            return Err(DaemonError::BadRequest(message.into()).into());
        }
        Ok(self.state.iter().fold(rule, |rule, state| rule.only(*state)))
    }
}

pub(super) async fn prune(
    State(app): State<App>,
    Extension(signed): Extension<Signed>,
    Extension(noted): Extension<Noted>,
    Json(rule): Json<Rule>,
) -> Answered {
    let (retention, dry_run) = (rule.retention()?, rule.dry_run);
    if dry_run {
        noted.does("prune_dry_run");
    }
    let plan = with_keeper(&app, move |keeper| keeper.plan(&[retention])).await?;
    let pruned = match dry_run {
        true => None,
        false => {
            change::begin(None).await?;
            let (audit, planned) = (Arc::clone(&app.audit), plan.clone());
            let intents = at_leisure(move || intents(&audit, &signed, &planned)).await?;
            let planned = plan.clone();
            let done = with_keeper(&app, move |keeper| keeper.carry_out(&planned)).await;
            let audit = Arc::clone(&app.audit);
            let done = at_leisure(move || {
                finish(&audit, intents, &done);
                done
            });
            Some(done.await?)
        }
    };
    let runs = |all: &[Candidate]| -> Vec<Value> {
        all.iter()
            .map(|one| json!({ "run": one.run.to_string(), "id": one.id, "why": one.why.word() }))
            .collect()
    };
    Ok(axum::Json(json!({
        "remove": runs(&plan.remove),
        "compact": runs(&plan.compact),
        "done": pruned.as_ref().map(told),
    }))
    .into_response())
}

/// The most runs that one line of the audit file names.
const NAMED: usize = 200;

/// An intent in the audit file, with the runs that it names.
type Intended = (Intent, Vec<Uuid>);

/// Records in the audit file which runs a rule is about to remove and compact.
fn intents(audit: &Audit, signed: &Signed, plan: &Plan) -> Result<Vec<Intended>, Problem> {
    let mut intents = Vec::new();
    for (did, runs) in [("remove", &plan.remove), ("compact", &plan.compact)] {
        let runs: Vec<Uuid> = runs.iter().map(|one| one.run).collect();
        for some in runs.chunks(NAMED) {
            let entry = signed.entry(did, Some(listed(some)), String::new());
            intents.push((audit.begin(&entry)?, some.to_vec()));
        }
    }
    Ok(intents)
}

/// Records which of these runs were removed and compacted. If the rule stopped with an error, that
/// error is the outcome of all of them, since its progress is unknown.
fn finish(audit: &Audit, intents: Vec<Intended>, done: &Result<Pruned, Problem>) {
    let outcome = done.as_ref().map_or_else(|problem| &*problem.code, |_| "ok");
    let is_left = |run: &Uuid| {
        let is = |pruned: &Pruned| {
            pruned.unchanged.contains(run) || pruned.refused.iter().any(|(left, _)| left == run)
        };
        done.as_ref().is_ok_and(is)
    };
    for (intent, mut runs) in intents {
        runs.retain(|run| !is_left(run));
        if let Err(error) = audit.finish(intent.done_to(listed(&runs)), outcome) {
            tracing::error!(target: "tiffany", code = error.code(), "{error}");
        }
    }
}

fn listed(runs: &[Uuid]) -> String {
    runs.iter().map(Uuid::to_string).collect::<Vec<_>>().join(" ")
}

fn told(pruned: &Pruned) -> Value {
    let refused = pruned.refused.iter().map(|(run, error)| {
        json!({ "run": run.to_string(), "code": error.code(), "message": error.message() })
    });
    json!({
        "removed": pruned.removed,
        "compacted": pruned.compacted,
        "bytes": pruned.bytes,
        "unchanged": pruned.unchanged.len(),
        "refused": refused.collect::<Vec<_>>(),
    })
}

/// Runs work that reads files and waits, on a blocking thread.
async fn with_keeper<T: Send + 'static>(
    app: &App,
    work: impl FnOnce(&mut Keeper) -> Result<T, TaskError> + Send + 'static,
) -> Result<T, Problem> {
    let (control, dir) = (app.runtime()?.control(), app.dir.clone());
    // Not through the socket: the audit would then name the daemon instead of the client.
    let done = tokio::task::spawn_blocking(move || work(&mut Keeper::through(control, &dir))).await;
    match done {
        Ok(done) => Ok(done?),
        Err(error) => Err(DaemonError::Start(error.to_string()).into()),
    }
}
