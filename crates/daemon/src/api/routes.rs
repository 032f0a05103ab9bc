//! The table of all routes: method, path, required role, what the route changes, its purpose,
//! parameters, body and answers. The router here and the OpenAPI document in `openapi.rs` are both
//! built from it, so they cannot disagree.

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

/// A row of the table.
#[derive(Clone, Copy)]
pub(super) struct Route {
    method: MethodFilter,
    pub(super) path: &'static str,
    pub(super) takes: Takes,
    handler: fn(MethodFilter) -> MethodRouter<App>,
    pub(super) about: &'static str,
    /// Parameters of the query. Those of the path are known by name.
    pub(super) query: &'static [Parameter],
    pub(super) headers: &'static [Parameter],
    pub(super) body: Option<Body>,
    pub(super) answers: &'static [Reply],
}

/// A parameter: its name, its schema and its description.
pub(super) type Parameter = (&'static str, Schema, &'static str);

/// An answer: its status, its description, and the name of the schema of its body.
pub(super) type Reply = (u16, &'static str, Option<&'static str>);

/// The schema of a parameter.
#[derive(Clone, Copy)]
pub(super) enum Schema {
    Text,
    /// A named schema.
    Is(&'static str),
    Count(u64, u64),
    Yes,
    OneOf(&'static [&'static str]),
}

/// The body of a request.
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

    /// Returns the method as OpenAPI writes it.
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
/// Access for routes that run code and change nothing.
const OPERATOR: Takes = Takes { role: Some(Role::Operator), changes: None };

const fn operator(word: &'static str) -> Takes {
    Takes { role: Some(Role::Operator), changes: Some(word) }
}

const fn admin(word: &'static str) -> Takes {
    Takes { role: Some(Role::Admin), changes: Some(word) }
}

const MANY: u64 = u64::MAX;

const NO_BODY: &[Reply] = &[(204, "Done, and durable in the log.", None)];

/// Parameters that select events.
const EVENTS: &[Parameter] = &[
    (
        "from",
        Schema::Count(0, MANY),
        "The first event, if it is still kept; by default events from now on.",
    ),
    (
        "epoch",
        Schema::Count(0, MANY),
        "The process that numbered `from`. If another process runs now, all events that are kept are sent.",
    ),
    ("all", Schema::Yes, "Also every turn of every task."),
    (
        "ghosts",
        Schema::Yes,
        "Also events that happen again while a run is resumed; yes by default.",
    ),
    ("ends", Schema::Yes, "Only the events that report how a run ended."),
];
/// How a client library says that its codec made the values of a request.
const ENCODED: Parameter = (
    "Tiffany-Values",
    Schema::OneOf(&["plain", "encoded"]),
    "`encoded`: the values are in the form of the codec of the program's language; by default plain JSON.",
);
const VALUES: &[Parameter] = &[ENCODED];
const SUBMIT: &[Parameter] = &[
    ("Idempotency-Key", Schema::Is("Key"), "A key that the id is made from, instead of an id."),
    ENCODED,
];
const LAST_EVENT: &[Parameter] = &[(
    "Last-Event-ID",
    Schema::Text,
    "Continue after this event; browsers send this by themselves.",
)];
const EVENTS_COME: &[Reply] = &[
    (200, "The events, until one side closes the connection.", Some("Events")),
    (101, "The events as a WebSocket.", None),
];

/// All routes.
pub(super) const ROUTES: &[Route] = &[
    get("/healthz", ANYBODY, handler!(health::healthz))
        .about("Whether the daemon is running.")
        .answers(&[(200, "It is running.", Some("Health"))]),
    get("/readyz", ANYBODY, handler!(health::readyz))
        .about("Whether the daemon accepts work: not while it resumes runs, when its log has failed, or when it is stopping.")
        .answers(&[
            (200, "It accepts work.", Some("Health")),
            (503, "It does not accept work now, and the reason.", Some("Health")),
        ]),
    get("/openapi.json", ANYBODY, handler!(pages::openapi))
        .about("This document.")
        .answers(&[(200, "The document.", Some("Anything"))]),
    get("/docs", ANYBODY, handler!(pages::docs))
        .about("This document as a page.")
        .answers(&[(200, "The page.", Some("Html"))]),
    get("/metrics", VIEWER, handler!(health::metrics))
        .about("The metrics, in the format of Prometheus.")
        .answers(&[(200, "The metrics.", Some("Text"))]),
    get("/api/v1/status", VIEWER, handler!(look::status))
        .about("The state of the daemon: its version and limits, its functions, how many runs are live, which are paused and why.")
        .answers(&[(200, "The state.", Some("Status"))]),
    get("/api/v1/me", VIEWER, handler!(me::me))
        .about("The caller: name, role, and how they were identified.")
        .answers(&[(200, "The caller.", Some("Me"))]),
    get("/api/v1/diff", VIEWER, handler!(diff::compare))
        .about("Compares two runs by their records, and finds where they differ.")
        .query(&[
            ("left", Schema::Is("Name"), "The first run."),
            ("right", Schema::Is("Name"), "The second run."),
            ("limit", Schema::Count(0, 10_000), "The number of differences to report in full; by default 100."),
        ])
        .answers(&[(200, "Where they differ.", Some("Diff"))]),
    get("/api/v1/runs", VIEWER, handler!(look::list))
        .about("Lists runs, filtered and sorted, a page at a time.")
        .query(&[
            (
                "state",
                Schema::Is("States"),
                "Only these states, separated by commas.",
            ),
            ("function", Schema::Text, "Only runs of this function."),
            ("text", Schema::Text, "Only runs with this text in their id, function or UUID."),
            ("since", Schema::Is("Moment"), "Only runs that started at this moment or later."),
            ("before", Schema::Is("Moment"), "Only runs that started before this moment."),
            ("parent", Schema::Is("Name"), "Only forks of this run."),
            (
                "tag",
                Schema::Text,
                "Only runs that have all of these tags, separated by commas; one with a comma in it between quotation marks.",
            ),
            (
                "attribute",
                Schema::Is("AttributeFilters"),
                "Only runs that fulfil all of these conditions, separated by commas, such as `amount>=10,customer=ada`.",
            ),
            (
                "sort",
                Schema::OneOf(&["started", "ended", "id", "function"]),
                "The sort key; by default the start.",
            ),
            ("order", Schema::OneOf(&["asc", "desc"]), "By default `desc` for times and `asc` for names."),
            ("limit", Schema::Count(1, 10_000), "How many at most; by default 100."),
            ("after", Schema::Text, "The `next` of the page before."),
            ("log", Schema::Yes, "Each run with what its file says: `log`."),
        ])
        .answers(&[(200, "A page of runs.", Some("RunPage"))]),
    post("/api/v1/runs", operator("submit"), handler!(submit::submit))
        .about("Starts a run. The same id with the same function and input is the same run, however often it is submitted.")
        .headers(SUBMIT)
        .body(Body::Needed("Submit"))
        .answers(&[
            (201, "The run is new, and durable in the log.", Some("Submitted")),
            (200, "The run existed already.", Some("Submitted")),
            (409, "The id belongs to a run with another function or input.", Some("Problem")),
        ]),
    get("/api/v1/runs/{run}", VIEWER, handler!(look::show))
        .about("One run: its tasks and what they wait for, or its value.")
        .query(&[("wait", Schema::Count(0, 60), "How many seconds to wait for the end of the run.")])
        .answers(&[(200, "The run.", Some("RunDetail"))]),
    get("/api/v1/runs/{run}/outcome", VIEWER, handler!(outcome::outcome))
        .about("What came of a run, as its log has it: a value in the form of the codec, or the whole error. For client libraries; others find the value in `GET /api/v1/runs/{run}`.")
        .query(&[("wait", Schema::Count(0, 60), "How many seconds to wait for the end of the run.")])
        .answers(&[(200, "The outcome, or the state of a run that has none yet.", Some("Outcome"))]),
    delete("/api/v1/runs/{run}", admin("remove"), handler!(keep::remove))
        .about("Removes a finished run, and erases it from every file within seconds. Its id stays taken.")
        .answers(NO_BODY),
    get("/api/v1/runs/{run}/records", VIEWER, handler!(records::records))
        .about("The records of a run, from any record on: a page of JSON; with `Accept: application/x-ndjson` a stream of lines, with `text/event-stream` a stream of events. A stream follows the log with `follow`.")
        .query(&[
            ("from", Schema::Count(0, MANY), "The first record."),
            (
                "limit",
                Schema::Count(1, 10_000),
                "How many at most; by default 1000, or all of a stream.",
            ),
            ("follow", Schema::Yes, "Of a stream: continue until the run is finished; the default for events."),
            ("order", Schema::OneOf(&["asc", "desc"]), "Of a page: `desc` has the last record first."),
            ("before", Schema::Count(0, MANY), "Of a page: only records before this one."),
            ("task", Schema::Count(0, MANY), "Of a page: only records of this task."),
            ("type", Schema::Is("RecordTypes"), "Of a page: only records of these types, separated by commas."),
            ("failed", Schema::Yes, "Of a page: only records of failures."),
            ("text", Schema::Text, "Of a page: only records with this text in their line, in upper or lower case."),
        ])
        .headers(&[(
            "Last-Event-ID",
            Schema::Text,
            "Continue after this record; browsers send this by themselves.",
        )])
        .answers(&[(200, "The records.", Some("Records"))]),
    get("/api/v1/runs/{run}/tasks", VIEWER, handler!(run_index::tasks))
        .about("The tasks of a run with their states, now or at a record. Computed from the records alone.")
        .query(&[
            ("at", Schema::Count(1, MANY), "The record; by default the last one."),
            ("since", Schema::Count(0, MANY), "Only tasks that changed after this record; not with `at`."),
            ("after", Schema::Count(0, MANY), "Only tasks with a higher number: the `next` of the page before."),
            ("limit", Schema::Count(1, 10_000), "How many at most; by default all."),
        ])
        .answers(&[(200, "The tasks.", Some("Tasks"))]),
    get("/api/v1/runs/{run}/timeline", VIEWER, handler!(run_index::timeline))
        .about("When the tasks of a run ran or waited, and what they waited for. Computed from the records alone.")
        .query(&[
            ("from", Schema::Count(0, MANY), "The beginning, in microseconds since the first record."),
            ("to", Schema::Count(0, MANY), "The end, in microseconds since the first record."),
            ("width", Schema::Count(1, 100_000), "The number of pieces that can be distinguished; shorter pieces are merged."),
            ("tids", Schema::Is("Tids"), "Only these tasks: numbers and ranges, such as 3,5-8."),
        ])
        .answers(&[(200, "The timeline.", Some("Timeline"))]),
    get("/api/v1/runs/{run}/effects", VIEWER, handler!(run_index::effects))
        .about("The steps of a run with their attempts, newest first, and sums by name. Computed from the records alone.")
        .query(&[
            ("task", Schema::Count(0, MANY), "Only steps of this task."),
            ("name", Schema::Text, "Only steps with this name."),
            (
                "state",
                Schema::OneOf(&["queued", "running", "retrying", "refused", "completed", "failed", "left"]),
                "Only steps in this state; `left`: the task ended without the result.",
            ),
            ("before", Schema::Count(0, MANY), "Only steps called before this record: the `next` of the page before."),
            ("limit", Schema::Count(1, 10_000), "How many at most; by default 100."),
        ])
        .answers(&[(200, "A page of steps.", Some("Effects"))]),
    get("/api/v1/runs/{run}/blobs/{hash}", VIEWER, handler!(blobs::show))
        .about("A long value, which records refer to by its hash (`$blob`), as it was written: JSON or bytes.")
        .answers(&[(200, "The value.", Some("Value"))]),
    get("/api/v1/events", VIEWER, handler!(events::of_all))
        .about("Live events of all runs: as server-sent events, or as a WebSocket on the same path.")
        .query(EVENTS)
        .headers(LAST_EVENT)
        .answers(EVENTS_COME),
    get("/api/v1/runs/{run}/events", VIEWER, handler!(events::of_run))
        .about("Live events of one run: as server-sent events, or as a WebSocket on the same path.")
        .query(EVENTS)
        .headers(LAST_EVENT)
        .answers(EVENTS_COME),
    post("/api/v1/runs/{run}/cancel", operator("cancel"), handler!(actions::cancel))
        .about("Cancels a run: its tasks may clean up. A second request, after they had a turn, ends the run without waiting for them.")
        .answers(NO_BODY),
    post("/api/v1/runs/{run}/hold", operator("hold"), handler!(actions::hold))
        .about("Holds a run: it gets no turns until it is released. Running steps finish and are recorded.")
        .body(Body::IfGiven("Reason"))
        .answers(NO_BODY),
    post("/api/v1/runs/{run}/release", operator("release"), handler!(actions::release))
        .about("Releases a run that a person or a limit holds. An exceeded limit is doubled for this run.")
        .body(Body::IfGiven("Reason"))
        .answers(NO_BODY),
    post("/api/v1/runs/{run}/messages", operator("send"), handler!(actions::send))
        .about("Sends a message to a run.")
        .headers(VALUES)
        .body(Body::Needed("Message"))
        .answers(NO_BODY),
    post("/api/v1/runs/{run}/queries/{name}", VIEWER, handler!(actions::query))
        .about("Asks a run a question, which it answers from its memory.")
        .headers(VALUES)
        .body(Body::IfGiven("Question"))
        .answers(&[(200, "The answer.", Some("Answer"))]),
    post("/api/v1/runs/{run}/forks", operator("fork"), handler!(actions::fork))
        .about("Forks a run: starts a new run that shares its history up to a record.")
        .headers(VALUES)
        .body(Body::Needed("Fork"))
        .answers(&[(201, "The fork.", Some("Forked"))]),
    post("/api/v1/runs/{run}/allow", operator("allow"), handler!(actions::allow))
        .about("Allows a fork to do steps that it was refused.")
        .body(Body::Needed("Allow"))
        .answers(NO_BODY),
    post("/api/v1/runs/{run}/compact", admin("compact"), handler!(keep::compact))
        .about("Compacts a finished run: only its input and its outcome are left.")
        .answers(&[(200, "What was done.", Some("Pruned"))]),
    get("/api/v1/runs/{run}/step", OPERATOR, handler!(rerun::step))
        .about("The run at one of its records: its tasks, what they wait for, and their variables. Runs its code in a separate process; no step is executed.")
        .query(&[("at", Schema::Count(1, MANY), "The record; by default the last one.")])
        .answers(&[(200, "The run at that record.", Some("Anything"))]),
    post("/api/v1/runs/{run}/replay", OPERATOR, handler!(rerun::replay))
        .about("Replays a run against its log, in a separate process and without executing steps, and reports whether it does the same.")
        .answers(&[(200, "The result of the replay.", Some("Anything"))]),
    post("/api/v1/promises/{promise}", operator("settle"), handler!(actions::settle))
        .about("Settles an external promise, with a value or with an error. The first answer counts.")
        .headers(VALUES)
        .body(Body::Needed("Settle"))
        .answers(&[(200, "Whether it was the first answer.", Some("Settled"))]),
    get("/api/v1/approvals", VIEWER, handler!(approvals::list))
        .about("The questions that wait for a person.")
        .answers(&[(200, "The questions.", Some("Approvals"))]),
    post("/api/v1/approvals/{run}/{call}/approve", operator("approve"), handler!(approvals::approve))
        .about("Approves a question, or selects one of its choices. The id of a question is the two names in the path. The first answer counts.")
        .body(Body::IfGiven("Says"))
        .answers(&[(200, "What was decided, as it is recorded.", Some("Decided"))]),
    post("/api/v1/approvals/{run}/{call}/reject", operator("reject"), handler!(approvals::reject))
        .about("Rejects a question: selects the last of its choices.")
        .body(Body::IfGiven("SaysNo"))
        .answers(&[(200, "What was decided, as it is recorded.", Some("Decided"))]),
    post("/api/v1/approvals/{run}/approve", operator("approve"), handler!(approvals::approve_only))
        .about("Approves the only open question of a run, or selects one of its choices. The path may also have the id of a question, with its `/` written as `%2F`.")
        .body(Body::IfGiven("Says"))
        .answers(&[(200, "What was decided, as it is recorded.", Some("Decided"))]),
    post("/api/v1/approvals/{run}/reject", operator("reject"), handler!(approvals::reject_only))
        .about("Rejects the only open question of a run.")
        .body(Body::IfGiven("SaysNo"))
        .answers(&[(200, "What was decided, as it is recorded.", Some("Decided"))]),
    get("/api/v1/stuck", VIEWER, handler!(stuck::list))
        .about("Tasks of live runs that have waited long for something other than a clock or a person, longest first, computed from the records alone; and turns that took so long that no other task could run.")
        .query(&[
            ("after", Schema::Count(0, MANY), "How long a wait may take, in seconds; by default 300 for steps, locks and descriptors, 3600 for messages and promises."),
            ("limit", Schema::Count(1, 1_000), "How many at most; by default 100."),
        ])
        .answers(&[(200, "The tasks.", Some("Stuck"))]),
    get("/api/v1/doubts", VIEWER, handler!(doubts::list))
        .about("The steps in doubt, which may have happened or not.")
        .answers(&[(200, "The steps.", Some("Doubts"))]),
    post("/api/v1/doubts", admin("decide"), handler!(doubts::decide))
        .about("Decides the outcome of a step in doubt.")
        .headers(VALUES)
        .body(Body::Needed("Decision"))
        .answers(NO_BODY),
    post("/api/v1/prune", admin("prune"), handler!(keep::prune))
        .about("Removes and compacts finished runs by a rule.")
        .body(Body::Needed("Prune"))
        .answers(&[(200, "What was planned, and what was done.", Some("Planned"))]),
];

/// Builds the router of all routes, each with its access check.
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

/// Answers a request for an unknown path: browsers get a page, programs a problem.
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
