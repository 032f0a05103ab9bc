//! Questions that wait for a person, and what people say to them. Who says it is whoever the door let in.

use axum::Extension;
use axum::extract::State;
use axum::response::IntoResponse;
use serde::Deserialize;
use serde_json::json;
use tiffany::control::{Answer, Request, Ruling};

use crate::app::{App, unexpected};
use crate::auth::Who;
use crate::http::{Answered, Given, Named, given};

pub(super) async fn list(State(app): State<App>) -> Answered {
    match app.ask(Request::Approvals).await? {
        Answer::Approvals(open) => Ok(axum::Json(json!({ "approvals": open })).into_response()),
        other => Err(unexpected(&other)),
    }
}

/// What somebody says.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Says {
    #[serde(deserialize_with = "given")]
    choice: Option<String>,
    #[serde(deserialize_with = "given")]
    because: Option<String>,
}

pub(super) async fn approve(
    State(app): State<App>,
    Extension(who): Extension<Who>,
    Named((run, call)): Named<(String, String)>,
    Given(says): Given<Says>,
) -> Answered {
    let ruling = says.choice.clone().map_or_else(Ruling::yes, Ruling::choice);
    rule(&app, &who, format!("{run}/{call}"), ruling, says).await
}

pub(super) async fn reject(
    State(app): State<App>,
    Extension(who): Extension<Who>,
    Named((run, call)): Named<(String, String)>,
    Given(says): Given<Says>,
) -> Answered {
    let ruling = says.choice.clone().map_or_else(Ruling::no, Ruling::choice);
    rule(&app, &who, format!("{run}/{call}"), ruling, says).await
}

async fn rule(app: &App, who: &Who, approval: String, ruling: Ruling, says: Says) -> Answered {
    let mut ruling = ruling.by(&who.name);
    if let Some(why) = says.because {
        ruling = ruling.because(why);
    }
    match app.ask(Request::Resolve { approval, ruling }).await? {
        Answer::Approval(decided) => Ok(axum::Json(decided).into_response()),
        other => Err(unexpected(&other)),
    }
}
