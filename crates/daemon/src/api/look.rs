//! Read-only requests: the list of runs, a single run, and the status of the daemon.

use std::future::poll_fn;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::response::IntoResponse;
use serde::Deserialize;
use serde_json::json;
use tiffany::Time;
use tiffany::Uuid;
use tiffany::control::{
    Answer, Request, RunDetail, RunQuery, SortBy, State as RunState, parse_filters, parse_moment,
    parse_tags,
};
use tiffany::pal::{Subscription, Told, Wanted};

use crate::app::{App, unexpected};
use crate::auth::Who;
use crate::error::DaemonError;
use crate::http::{Answered, Problem};
use crate::http::{Named, Query};

use super::run_logs::with_logs;

/// Query parameters of the list of runs.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Listed {
    state: Option<String>,
    function: Option<String>,
    text: Option<String>,
    since: Option<String>,
    before: Option<String>,
    parent: Option<String>,
    tag: Option<String>,
    attribute: Option<String>,
    sort: Option<String>,
    order: Option<String>,
    limit: Option<u64>,
    after: Option<String>,
    log: bool,
}

fn bad(message: String) -> Problem {
    DaemonError::BadRequest(message).into()
}

impl Listed {
    async fn query(self, app: &App) -> Result<RunQuery, Problem> {
        let state = |word: &str| {
            let known = RunState::parse(word.trim());
            known.ok_or_else(|| bad(format!("`state`: there is no state `{word}`")))
        };
        let words = self.state.as_deref().into_iter().flat_map(|words| words.split(','));
        let states = words.map(state).collect::<Result<_, _>>()?;
        let sort = match self.sort.as_deref() {
            None | Some("started") => SortBy::Started,
            Some("ended") => SortBy::Ended,
            Some("id") => SortBy::Id,
            Some("function") => SortBy::Function,
            Some(other) => {
                let message =
                    format!("`sort` is started, ended, id or function, and not `{other}`");
                return Err(bad(message));
            }
        };
        let descending = match self.order.as_deref() {
            None => matches!(sort, SortBy::Started | SortBy::Ended),
            Some("asc") => false,
            Some("desc") => true,
            Some(other) => return Err(bad(format!("`order` is asc or desc, and not `{other}`"))),
        };
        let parent = match &self.parent {
            Some(name) => Some(app.find(name).await?),
            None => None,
        };
        let limit = self.limit.unwrap_or(100);
        if !(1..=RunQuery::MAX_LIMIT as u64).contains(&limit) {
            return Err(bad(format!("`limit` is between 1 and {}", RunQuery::MAX_LIMIT)));
        }
        Ok(RunQuery {
            states,
            function: self.function,
            text: self.text,
            since: moment("since", self.since.as_deref())?,
            before: moment("before", self.before.as_deref())?,
            parent,
            tags: self.tag.as_deref().map(parse_tags).unwrap_or_default(),
            attributes: self.attribute.as_deref().map_or(Ok(Vec::new()), parse_filters)?,
            sort,
            descending,
            limit: limit as usize,
            after: self.after,
        })
    }
}

fn moment(name: &str, text: Option<&str>) -> Result<Option<Time>, Problem> {
    let read = |text: &str| {
        parse_moment(text).ok_or_else(|| {
            bad(format!(
                "`{name}` is a moment in UTC, such as 2026-11-05T09:41:00Z, and not `{text}`"
            ))
        })
    };
    text.map(read).transpose()
}

pub(super) async fn list(State(app): State<App>, Query(listed): Query<Listed>) -> Answered {
    let with_log = listed.log;
    let query = listed.query(&app).await?;
    match app.ask(Request::Runs(query)).await {
        Ok(Answer::Runs(page)) if with_log => with_logs(&app, page).await,
        Ok(Answer::Runs(page)) => Ok(axum::Json(page).into_response()),
        Ok(other) => Err(unexpected(&other)),
        // The cursor came from the client, so a bad one is a bad request.
        Err(problem) if problem.code == "TFY0032" => Err(bad(problem.title().into())),
        Err(problem) => Err(problem),
    }
}

/// Query parameters for waiting until a run ends.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Waits {
    wait: Option<u32>,
}

/// How often a run that a client waits for is checked without an event. A fork that pauses because
/// a step is refused emits none.
const PACE: Duration = Duration::from_secs(1);
/// The longest wait that a client may ask for.
const MAX_WAIT_SECONDS: u32 = 60;

pub(super) async fn show(
    State(app): State<App>,
    Extension(who): Extension<Who>,
    Named(name): Named<String>,
    Query(waits): Query<Waits>,
) -> Answered {
    let mut detail = waited_for(&app, &who, &name, waits).await?;
    // Its value or its error is there already, in the form of all clients.
    detail.recorded = None;
    Ok(axum::Json(detail).into_response())
}

/// Returns a run when it has finished, or when the wait has.
pub(super) async fn waited_for(
    app: &App,
    who: &Who,
    name: &str,
    Waits { wait }: Waits,
) -> Result<RunDetail, Problem> {
    if wait.is_some_and(|wait| wait > MAX_WAIT_SECONDS) {
        return Err(bad(format!("`wait` is {MAX_WAIT_SECONDS} seconds at most")));
    }
    let run = app.find(name).await?;
    let deadline = tokio::time::Instant::now() + Duration::from_secs(wait.unwrap_or(0).into());
    let mut events = None;
    loop {
        let detail = detail(app, run).await?;
        let is_over = detail.summary.state != RunState::Live;
        if is_over || tokio::time::Instant::now() >= deadline {
            return Ok(detail);
        }
        // A run whose log has failed cannot end before a restart.
        app.ask(Request::Health).await?;
        let Some(events) = &mut events else {
            // Subscribed before the check, so that no event between the two is missed.
            let wanted = Wanted::new().run(run).ghosts(false);
            events = Some(app.runtime()?.activity().subscribe(wanted));
            continue;
        };
        tokio::select! {
            () = happened(events) => {}
            () = tokio::time::sleep_until(deadline.min(tokio::time::Instant::now() + PACE)) => {}
            () = app.closing() => return Ok(detail),
        }
        // The token may have been removed in the meantime. This line is reached at least once a
        // second.
        app.gate.still_knows(who)?;
    }
}

/// Waits for an event of the run itself, such as its end, and ignores those of its tasks.
async fn happened(events: &mut Subscription) {
    loop {
        match poll_fn(|cx| events.poll_next(cx)).await {
            Some(Told::Event(event)) if event.tid.is_some() => {}
            Some(_) => return,
            // The runtime has ended; the next request to it reports that.
            None => return tokio::time::sleep(PACE).await,
        }
    }
}

pub(super) async fn detail(app: &App, run: Uuid) -> Result<RunDetail, Problem> {
    match app.ask(Request::Show { run }).await? {
        Answer::Shown(detail) => Ok(*detail),
        other => Err(unexpected(&other)),
    }
}

pub(super) async fn status(State(app): State<App>) -> Answered {
    match app.ask(Request::Status).await? {
        Answer::Status(status) => {
            let paused = status.paused.iter().map(|paused| {
                json!({
                    "run": paused.run.to_string(),
                    "code": paused.error.code(),
                    "message": paused.error.message(),
                })
            });
            let all = json!({
                "pid": status.pid,
                "url": status.url,
                "version": status.version,
                "api": "v1",
                "dir": app.dir,
                "limits": app.limits.told(),
                "functions": status.functions,
                "live": status.live,
                "paused": paused.collect::<Vec<_>>(),
                "failed": status.failed.map(|error| Problem::from(error).json()),
                "started": app.started,
                "versions": {
                    "tiffany": status.version,
                    "api": "v1",
                    "log": tiffany::wal::LINE_VERSION,
                },
            });
            Ok(axum::Json(all).into_response())
        }
        other => Err(unexpected(&other)),
    }
}
