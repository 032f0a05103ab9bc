//! Questions that wait for a person, and the answers to them. The access check decides whose name
//! an answer carries.

use axum::Extension;
use axum::extract::State;
use axum::response::IntoResponse;
use serde::Deserialize;
use serde_json::json;
use tiffany::Uuid;
use tiffany::control::{Answer, Request, Ruling};

use crate::app::{App, unexpected};
use crate::auth::Who;
use crate::error::DaemonError;
use crate::http::{Answered, Problem};
use crate::http::{Given, Named, given};

pub(super) async fn list(State(app): State<App>) -> Answered {
    match app.ask(Request::Approvals).await? {
        Answer::Approvals(open) => Ok(axum::Json(json!({ "approvals": open })).into_response()),
        other => Err(unexpected(&other)),
    }
}

/// The body of an approval.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Yes {
    #[serde(deserialize_with = "given")]
    choice: Option<String>,
    #[serde(deserialize_with = "given")]
    because: Option<String>,
}

/// The body of a rejection. It takes no choice: a client that names one may have meant an answer
/// other than the last.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct No {
    #[serde(deserialize_with = "given")]
    because: Option<String>,
}

impl Yes {
    fn ruling(self) -> (Ruling, Option<String>) {
        (self.choice.map_or_else(Ruling::yes, Ruling::choice), self.because)
    }
}

impl No {
    fn ruling(self) -> (Ruling, Option<String>) {
        (Ruling::no(), self.because)
    }
}

pub(super) async fn approve(
    State(app): State<App>,
    Extension(who): Extension<Who>,
    Named((run, call)): Named<(String, String)>,
    Given(says): Given<Yes>,
) -> Answered {
    let question = question(&app, &run, &call).await?;
    rule(&app, &who, question, says.ruling()).await
}

pub(super) async fn reject(
    State(app): State<App>,
    Extension(who): Extension<Who>,
    Named((run, call)): Named<(String, String)>,
    Given(says): Given<No>,
) -> Answered {
    let question = question(&app, &run, &call).await?;
    rule(&app, &who, question, says.ruling()).await
}

pub(super) async fn approve_only(
    State(app): State<App>,
    Extension(who): Extension<Who>,
    Named(name): Named<String>,
    Given(says): Given<Yes>,
) -> Answered {
    let question = named(&app, &name).await?;
    rule(&app, &who, question, says.ruling()).await
}

pub(super) async fn reject_only(
    State(app): State<App>,
    Extension(who): Extension<Who>,
    Named(name): Named<String>,
    Given(says): Given<No>,
) -> Answered {
    let question = named(&app, &name).await?;
    rule(&app, &who, question, says.ruling()).await
}

/// Returns the id of a question, from any name of its run and the number of its record.
async fn question(app: &App, run: &str, call: &str) -> Result<String, Problem> {
    match Uuid::parse(run) {
        Some(_) => Ok(format!("{run}/{call}")),
        None => Ok(format!("{}/{call}", app.find_whole(run).await?)),
    }
}

/// Returns the id of a question from a single name: either a whole id with its `/` escaped as
/// `%2F`, or a run that has only one question. The name of a run may itself contain a `/`.
async fn named(app: &App, name: &str) -> Result<String, Problem> {
    let part = name.rsplit_once('/');
    if let Some((run, call)) = part.filter(|(run, _)| Uuid::parse(run).is_some()) {
        return question(app, run, call).await;
    }
    let run = match (app.find_whole(name).await, part) {
        (Err(_), Some((run, call))) => return question(app, run, call).await,
        (Ok(whole), Some((run, _))) if app.find_whole(run).await.is_ok() => {
            let message = format!(
                "`{name}` is a run, and `{run}` is one too; name the question by UUID and record, such as {whole}/7"
            );
            return Err(DaemonError::BadRequest(message).into());
        }
        (found, _) => found?.to_string(),
    };
    let open = match app.ask(Request::Approvals).await? {
        Answer::Approvals(open) => open,
        other => return Err(unexpected(&other)),
    };
    let mut ids = open.into_iter().filter(|open| open.run == run).map(|open| open.id);
    match (ids.next(), ids.next()) {
        (Some(only), None) => Ok(only),
        (Some(one), Some(other)) => {
            let message = format!("`{name}` has several open questions, such as {one} and {other}");
            Err(DaemonError::BadRequest(message).into())
        }
        // The runtime knows whether the run's last question is decided, and who decided it.
        (None, _) => Ok(run),
    }
}

async fn rule(
    app: &App,
    who: &Who,
    approval: String,
    (ruling, because): (Ruling, Option<String>),
) -> Answered {
    let mut ruling = ruling.by(&who.name);
    if let Some(why) = because {
        ruling = ruling.because(why);
    }
    match app.ask(Request::Resolve { approval, ruling }).await? {
        Answer::Approval(decided) => Ok(axum::Json(decided).into_response()),
        other => Err(unexpected(&other)),
    }
}
