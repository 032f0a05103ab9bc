//! The table of all routes: method, path, the role it takes, what it changes, what it is for, what it is given and what it answers. The router is made of it
//! here and the OpenAPI document in `openapi.rs`, so neither can have what the other has not.

use axum::Router;
use axum::extract::Request;
use axum::http::{Method, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, on};

use super::{
    actions, approvals, blobs, diff, doubts, events, health, keep, look, me, outcome, page, pages,
    records, rerun, run_index, stuck, submit,
};
use crate::app::App;
use crate::auth::Role;
use crate::error::DaemonError;
use crate::http::Problem;
use crate::http::{Takes, guarded};

/// One row of the table.
#[derive(Clone, Copy)]
pub(super) struct Route {
    method: MethodFilter,
    pub(super) path: &'static str,
    pub(super) takes: Takes,
    handler: fn(MethodFilter) -> MethodRouter<App>,
    pub(super) about: &'static str,
    /// Those in the path are known by it.
    pub(super) query: &'static [Parameter],
    pub(super) headers: &'static [Parameter],
    pub(super) body: Option<Body>,
    pub(super) answers: &'static [Reply],
}

/// Name, schema, what it is for.
pub(super) type Parameter = (&'static str, Schema, &'static str);

/// Status, what it means, and the name of the schema of its body.
pub(super) type Reply = (u16, &'static str, Option<&'static str>);

/// What a parameter can be.
#[derive(Clone, Copy)]
pub(super) enum Schema {
    Text,
    /// The name of a schema.
    Is(&'static str),
    Count(u64, u64),
    Yes,
    OneOf(&'static [&'static str]),
}

/// The name of the schema of a body.
#[derive(Clone, Copy)]
pub(super) enum Body {
    Needed(&'static str),
    IfGiven(&'static str),
}

const fn get(path: &'static str, takes: Takes, handler: Handler) -> Route {
    Route::new(MethodFilter::GET, path, takes, handler)
}

const fn post(path: &'static str, takes: Takes, handler: Handler) -> Route {
    Route::new(MethodFilter::POST, path, takes, handler)
}

const fn delete(path: &'static str, takes: Takes, handler: Handler) -> Route {
    Route::new(MethodFilter::DELETE, path, takes, handler)
}

type Handler = fn(MethodFilter) -> MethodRouter<App>;

macro_rules! handler {
    ($handler:expr) => {
        |method| on(method, $handler)
    };
}

impl Route {
    const fn new(
        method: MethodFilter,
        path: &'static str,
        takes: Takes,
        handler: Handler,
    ) -> Route {
        Route {
            method,
            path,
            takes,
            handler,
            about: "",
            query: &[],
            headers: &[],
            body: None,
            answers: &[],
        }
    }

    const fn about(self, about: &'static str) -> Route {
        Route { about, ..self }
    }

    const fn query(self, query: &'static [Parameter]) -> Route {
        Route { query, ..self }
    }

    const fn headers(self, headers: &'static [Parameter]) -> Route {
        Route { headers, ..self }
    }

    const fn body(self, body: Body) -> Route {
        Route { body: Some(body), ..self }
    }

    const fn answers(self, answers: &'static [Reply]) -> Route {
        Route { answers, ..self }
    }

    /// The method in the words of the document.
    pub(super) fn method(&self) -> &'static str {
        match self.method {
            MethodFilter::GET => "get",
            MethodFilter::POST => "post",
            _ => "delete",
        }
    }
}

const ANYBODY: Takes = Takes { role: None, changes: None };
const VIEWER: Takes = Takes { role: Some(Role::Viewer), changes: None };
/// Runs code, and changes nothing.
const OPERATOR: Takes = Takes { role: Some(Role::Operator), changes: None };

const fn operator(word: &'static str) -> Takes {
    Takes { role: Some(Role::Operator), changes: Some(word) }
}

const fn admin(word: &'static str) -> Takes {
    Takes { role: Some(Role::Admin), changes: Some(word) }
}

const MANY: u64 = u64::MAX;

const NO_BODY: &[Reply] = &[(204, "Done, and safe in the log.", None)];

/// Which events are wanted.
const EVENTS: &[Parameter] = &[
    (
        "from",
        Schema::Count(0, MANY),
        "From this event on, as far as it is still known; without it from now on.",
    ),
    (
        "epoch",
        Schema::Count(0, MANY),
        "The process that `from` is of. If it is another one now, everything that is known is told.",
    ),
    ("all", Schema::Yes, "Every turn of every task too."),
    ("ghosts", Schema::Yes, "What happens again while a run is brought back; by default yes."),
    ("ends", Schema::Yes, "Only the events that report how a run ended."),
];
/// How a client library says that its codec made the values of a request.
const ENCODED: Parameter = (
    "Tiffany-Values",
    Schema::OneOf(&["plain", "encoded"]),
    "`encoded`: the values are in the form of the codec of the program's language; by default plain JSON.",
);
const VALUES: &[Parameter] = &[ENCODED];
const SUBMIT: &[Parameter] =
    &[("Idempotency-Key", Schema::Is("Key"), "Instead of an id: the id is made from it."), ENCODED];
const LAST_EVENT: &[Parameter] =
    &[("Last-Event-ID", Schema::Text, "Go on after this event, as a browser does by itself.")];
const EVENTS_COME: &[Reply] = &[
    (200, "The events, until one side leaves.", Some("Events")),
    (101, "The same as a WebSocket.", None),
];

/// All routes.
pub(super) const ROUTES: &[Route] = &[
    get("/healthz", ANYBODY, handler!(health::healthz))
        .about("Whether the daemon is there.")
        .answers(&[(200, "It is.", Some("Health"))]),
    get("/readyz", ANYBODY, handler!(health::readyz))
        .about("Whether it can be given work: not while it brings runs back, when its log has failed, or when it is ending.")
        .answers(&[
            (200, "It can.", Some("Health")),
            (503, "It cannot now, and why.", Some("Health")),
        ]),
    get("/openapi.json", ANYBODY, handler!(pages::openapi))
        .about("This document.")
        .answers(&[(200, "The document.", Some("Anything"))]),
    get("/docs", ANYBODY, handler!(pages::docs))
        .about("This document as a page.")
        .answers(&[(200, "The page.", Some("Html"))]),
    get("/metrics", VIEWER, handler!(health::metrics))
        .about("What was counted and measured, for Prometheus; with `Accept: application/json` as JSON.")
        .answers(&[(200, "The metrics.", Some("Text"))]),
    get("/api/v1/status", VIEWER, handler!(look::status))
        .about("How the daemon stands: its version and limits, its functions, how many runs go on, which are paused and why.")
        .answers(&[(200, "How it stands.", Some("Status"))]),
    get("/api/v1/me", VIEWER, handler!(me::me))
        .about("Who asks, what they may do, and how that is known.")
        .answers(&[(200, "Who.", Some("Me"))]),
    get("/api/v1/diff", VIEWER, handler!(diff::compare))
        .about("Two runs side by side: where they part. From their records alone.")
        .query(&[
            ("left", Schema::Is("Name"), "The first run."),
            ("right", Schema::Is("Name"), "The second one."),
            ("limit", Schema::Count(0, 10_000), "So many differences are told in full; by default 100."),
        ])
        .answers(&[(200, "Where they part.", Some("Diff"))]),
    get("/api/v1/runs", VIEWER, handler!(look::list))
        .about("The runs: filtered, sorted, a page at a time.")
        .query(&[
            (
                "state",
                Schema::Is("States"),
                "Only these states, separated by commas.",
            ),
            ("function", Schema::Text, "Only runs of this function."),
            ("text", Schema::Text, "Only runs that have this in their id, function or UUID."),
            ("since", Schema::Is("Moment"), "Only runs that began at this moment or later."),
            ("before", Schema::Is("Moment"), "Only runs that began before this moment."),
            ("parent", Schema::Is("Name"), "Only forks of this run."),
            (
                "sort",
                Schema::OneOf(&["started", "ended", "id", "function"]),
                "By what they are sorted; by default by when they began.",
            ),
            ("order", Schema::OneOf(&["asc", "desc"]), "Times are by default `desc`, names `asc`."),
            ("limit", Schema::Count(1, 10_000), "How many at most; by default 100."),
            ("after", Schema::Text, "Go on after a page: its `next`."),
            ("log", Schema::Yes, "Each run with what its file says: `log`."),
        ])
        .answers(&[(200, "A page of runs.", Some("RunPage"))]),
    post("/api/v1/runs", operator("submit"), handler!(submit::submit))
        .about("Starts a run. The same id with the same function and input is the same run, however often it is asked for.")
        .headers(SUBMIT)
        .body(Body::Needed("Submit"))
        .answers(&[
            (201, "The run is new, and safe in the log.", Some("Submitted")),
            (200, "The run was there already.", Some("Submitted")),
            (409, "The id belongs to a run with another function or input.", Some("Problem")),
        ]),
    get("/api/v1/runs/{run}", VIEWER, handler!(look::show))
        .about("One run: its tasks and what they wait for, or its value.")
        .query(&[("wait", Schema::Count(0, 60), "Wait so many seconds for the end of the run.")])
        .answers(&[(200, "The run.", Some("RunDetail"))]),
    get("/api/v1/runs/{run}/outcome", VIEWER, handler!(outcome::outcome))
        .about("What came of a run, as its log has it: a value in the form of the codec, or the whole error. For client libraries; others find the value in `GET /api/v1/runs/{run}`.")
        .query(&[("wait", Schema::Count(0, 60), "Wait so many seconds for the end of the run.")])
        .answers(&[(200, "The outcome, or the state of a run that has none yet.", Some("Outcome"))]),
    delete("/api/v1/runs/{run}", admin("remove"), handler!(keep::remove))
        .about("Removes a run that is over, and erases it from every file within seconds. Its id stays taken.")
        .answers(NO_BODY),
    get("/api/v1/runs/{run}/records", VIEWER, handler!(records::records))
        .about("The records of a run, from any on: a page of JSON; with `Accept: application/x-ndjson` lines, and with `text/event-stream` events, both as they are written if asked to follow.")
        .query(&[
            ("from", Schema::Count(0, MANY), "From this record on."),
            (
                "limit",
                Schema::Count(1, 10_000),
                "How many at most; by default 1000, or all of a stream.",
            ),
            ("follow", Schema::Yes, "Go on until the run is over; by default for events only."),
            ("order", Schema::OneOf(&["asc", "desc"]), "Of a page: `desc` has the last record first."),
            ("before", Schema::Count(0, MANY), "Of a page: only records before this one."),
            ("task", Schema::Count(0, MANY), "Of a page: only records of this task."),
            ("type", Schema::Is("RecordTypes"), "Of a page: only records of these types, separated by commas."),
            ("failed", Schema::Yes, "Of a page: only records of failures."),
            ("text", Schema::Text, "Of a page: only records that have this in their line, in small or capital letters."),
        ])
        .headers(&[(
            "Last-Event-ID",
            Schema::Text,
            "Go on after this record, as a browser does by itself.",
        )])
        .answers(&[(200, "The records.", Some("Records"))]),
    get("/api/v1/runs/{run}/tasks", VIEWER, handler!(run_index::tasks))
        .about("The tasks of a run, where they stand or stood at a record: from its records alone.")
        .query(&[
            ("at", Schema::Count(1, MANY), "The record; by default the last one."),
            ("since", Schema::Count(0, MANY), "Only those that changed after this record; not with `at`."),
            ("after", Schema::Count(0, MANY), "Only those with a higher number: the `next` of a page."),
            ("limit", Schema::Count(1, 10_000), "How many at most; by default all."),
        ])
        .answers(&[(200, "The tasks.", Some("Tasks"))]),
    get("/api/v1/runs/{run}/timeline", VIEWER, handler!(run_index::timeline))
        .about("What the tasks of a run did over time: ran, or waited, and what for. From its records alone.")
        .query(&[
            ("from", Schema::Count(0, MANY), "From this moment on, in microseconds since the first record."),
            ("to", Schema::Count(0, MANY), "Up to this one."),
            ("width", Schema::Count(1, 100_000), "So many pieces can be told apart: what is shorter is put together."),
            ("tids", Schema::Is("Tids"), "Only these tasks: numbers and ranges, such as 3,5-8."),
        ])
        .answers(&[(200, "The timeline.", Some("Timeline"))]),
    get("/api/v1/runs/{run}/effects", VIEWER, handler!(run_index::effects))
        .about("The effects of a run with their attempts, the newest first, and sums by name. From its records alone.")
        .query(&[
            ("task", Schema::Count(0, MANY), "Only those of this task."),
            ("name", Schema::Text, "Only those of this name."),
            (
                "state",
                Schema::OneOf(&["queued", "running", "retrying", "refused", "completed", "failed", "left"]),
                "Only those in this state; `left`: its task ended without it.",
            ),
            ("before", Schema::Count(0, MANY), "Only those called before this record: the `next` of a page."),
            ("limit", Schema::Count(1, 10_000), "How many at most; by default 100."),
        ])
        .answers(&[(200, "A page of effects.", Some("Effects"))]),
    get("/api/v1/runs/{run}/blobs/{hash}", VIEWER, handler!(blobs::show))
        .about("A long value, which records name by its hash (`$blob`), as it was written: JSON, or bytes.")
        .answers(&[(200, "The value.", Some("Value"))]),
    get("/api/v1/events", VIEWER, handler!(events::of_all))
        .about("What all runs do while they do it, as events (SSE), or as a WebSocket on the same path.")
        .query(EVENTS)
        .headers(LAST_EVENT)
        .answers(EVENTS_COME),
    get("/api/v1/runs/{run}/events", VIEWER, handler!(events::of_run))
        .about("What one run does while it does it, in the same forms.")
        .query(EVENTS)
        .headers(LAST_EVENT)
        .answers(EVENTS_COME),
    post("/api/v1/runs/{run}/cancel", operator("cancel"), handler!(actions::cancel))
        .about("Cancels a run: its tasks may clean up. A second time, after they had a turn, it ends the run without waiting for them.")
        .answers(NO_BODY),
    post("/api/v1/runs/{run}/hold", operator("hold"), handler!(actions::hold))
        .about("Holds a run: it gets no turns until it is released. Steps that are under way come to their end and are recorded.")
        .body(Body::IfGiven("Reason"))
        .answers(NO_BODY),
    post("/api/v1/runs/{run}/release", operator("release"), handler!(actions::release))
        .about("Lets a run continue that a person or a limit holds. What a limit allows it is doubled.")
        .body(Body::IfGiven("Reason"))
        .answers(NO_BODY),
    post("/api/v1/runs/{run}/messages", operator("send"), handler!(actions::send))
        .about("Sends a message to a run.")
        .headers(VALUES)
        .body(Body::Needed("Message"))
        .answers(NO_BODY),
    post("/api/v1/runs/{run}/queries/{name}", VIEWER, handler!(actions::query))
        .about("Asks a run something, which it answers from its memory.")
        .headers(VALUES)
        .body(Body::IfGiven("Question"))
        .answers(&[(200, "What it answered.", Some("Answer"))]),
    post("/api/v1/runs/{run}/forks", operator("fork"), handler!(actions::fork))
        .about("Makes another run that is what this one was up to a record.")
        .headers(VALUES)
        .body(Body::Needed("Fork"))
        .answers(&[(201, "The fork.", Some("Forked"))]),
    post("/api/v1/runs/{run}/allow", operator("allow"), handler!(actions::allow))
        .about("Lets a fork do effects that it was refused.")
        .body(Body::Needed("Allow"))
        .answers(NO_BODY),
    post("/api/v1/runs/{run}/compact", admin("compact"), handler!(keep::compact))
        .about("Leaves of a run that is over what it was started with and what came of it.")
        .answers(&[(200, "What was done.", Some("Pruned"))]),
    get("/api/v1/runs/{run}/step", OPERATOR, handler!(rerun::step))
        .about("The run at one of its records: tasks, what they wait for, their variables. Runs its code in a process of its own; no effect begins.")
        .query(&[("at", Schema::Count(1, MANY), "The record; by default the last one.")])
        .answers(&[(200, "The run there.", Some("Anything"))]),
    post("/api/v1/runs/{run}/replay", OPERATOR, handler!(rerun::replay))
        .about("Runs a run again against its log, in a process of its own and without its effects, and tells whether it is the same.")
        .answers(&[(200, "What came of it.", Some("Anything"))]),
    post("/api/v1/promises/{promise}", operator("settle"), handler!(actions::settle))
        .about("Settles an external promise, with a value or with an error. The first answer counts.")
        .headers(VALUES)
        .body(Body::Needed("Settle"))
        .answers(&[(200, "Whether it was the first answer.", Some("Settled"))]),
    get("/api/v1/approvals", VIEWER, handler!(approvals::list))
        .about("The questions that wait for a person.")
        .answers(&[(200, "The questions.", Some("Approvals"))]),
    post("/api/v1/approvals/{run}/{call}/approve", operator("approve"), handler!(approvals::approve))
        .about("Says yes to a question, or names one of its choices. Its id is the two names in the path. The first answer counts.")
        .body(Body::IfGiven("Says"))
        .answers(&[(200, "What was decided, as it is recorded.", Some("Decided"))]),
    post("/api/v1/approvals/{run}/{call}/reject", operator("reject"), handler!(approvals::reject))
        .about("Says no to a question: the last of its choices.")
        .body(Body::IfGiven("SaysNo"))
        .answers(&[(200, "What was decided, as it is recorded.", Some("Decided"))]),
    post("/api/v1/approvals/{run}/approve", operator("approve"), handler!(approvals::approve_only))
        .about("The same for a run that has only one open question. The id of a question is a name here, too, with its `/` written as `%2F`.")
        .body(Body::IfGiven("Says"))
        .answers(&[(200, "What was decided, as it is recorded.", Some("Decided"))]),
    post("/api/v1/approvals/{run}/reject", operator("reject"), handler!(approvals::reject_only))
        .about("Says no to the only open question of a run.")
        .body(Body::IfGiven("SaysNo"))
        .answers(&[(200, "What was decided, as it is recorded.", Some("Decided"))]),
    get("/api/v1/stuck", VIEWER, handler!(stuck::list))
        .about("Tasks of runs that go on which have waited for long for something that neither a clock nor a person decides, the longest first, from the records alone; and turns that took so long that nothing else went on.")
        .query(&[
            ("after", Schema::Count(0, MANY), "Seconds that any wait may take; by default 300 for steps, locks and descriptors, 3600 for messages and promises."),
            ("limit", Schema::Count(1, 1_000), "How many at most; by default 100."),
        ])
        .answers(&[(200, "The tasks.", Some("Stuck"))]),
    get("/api/v1/doubts", VIEWER, handler!(doubts::list))
        .about("The steps that may have happened or not.")
        .answers(&[(200, "The steps.", Some("Doubts"))]),
    post("/api/v1/doubts", admin("decide"), handler!(doubts::decide))
        .about("Decides on one of them.")
        .headers(VALUES)
        .body(Body::Needed("Decision"))
        .answers(NO_BODY),
    post("/api/v1/prune", admin("prune"), handler!(keep::prune))
        .about("Removes and compacts runs that are over by a rule.")
        .body(Body::Needed("Prune"))
        .answers(&[(200, "What was planned, and what was done.", Some("Planned"))]),
];

/// Everything that can be asked, each behind its door.
pub(crate) fn router(app: &App) -> Router {
    let mut router = Router::new();
    for route in ROUTES {
        router = router.route(route.path, guarded((route.handler)(route.method), app, route.takes));
    }
    router
        .merge(page::routes())
        .fallback(no_path)
        .method_not_allowed_fallback(no_method)
        .with_state(app.clone())
}

/// A person who went astray is given a page that says so, and a program a problem.
async fn no_path(request: Request) -> Response {
    let accepted = request.headers().get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let is_person = accepted.is_some_and(|accepted| accepted.contains("text/html"));
    if is_person && request.method() == Method::GET && !request.uri().path().starts_with("/api/") {
        return page::nowhere(request.uri());
    }
    let path = request.uri().path().chars().take(200).collect();
    Problem::from(DaemonError::NoPath(path)).into_response()
}

async fn no_method(request: Request) -> Response {
    Problem::from(DaemonError::NoMethod(request.method().to_string())).into_response()
}
