//! The table of all routes: method, path, the role it takes, what it changes, what it is for, what it is given and what it answers. The router and the
//! OpenAPI document are both made of it, so neither can have what the other has not.

use axum::Router;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, on};
use serde_json::{Map, Value, json};

use super::{
    actions, approvals, chronicle, diff, doubts, events, health, keep, look, me, page, pages,
    records, rerun, submit,
};
use crate::app::App;
use crate::auth::Role;
use crate::error::DaemonError;
use crate::http::{Problem, Takes, guarded};

/// One row of the table.
pub(crate) struct Route {
    method: MethodFilter,
    path: &'static str,
    takes: Takes,
    summary: &'static str,
    /// Name, whether it must be there, its schema, what it is for. Those in the path are known by it.
    query: &'static [Parameter],
    headers: &'static [Parameter],
    /// The name of the schema of the body.
    body: Option<&'static str>,
    /// Status, what it says, the type of the body and the name of its schema.
    answers: &'static [Reply],
    handler: fn(MethodFilter) -> MethodRouter<App>,
}

/// Name, schema, what it is for.
type Parameter = (&'static str, Schema, &'static str);

/// Status, what it means, and the name of the schema of its body.
type Reply = (u16, &'static str, Option<&'static str>);

/// What a parameter can be.
#[derive(Clone, Copy)]
enum Schema {
    Text,
    Moment,
    Count(u64, u64),
    Yes,
    OneOf(&'static [&'static str]),
}

impl Schema {
    fn json(self) -> Value {
        match self {
            Schema::Text => json!({ "type": "string" }),
            Schema::Moment => json!({ "type": "string", "examples": ["2026-11-05T09:41:00Z"] }),
            Schema::Count(least, most) => {
                json!({ "type": "integer", "minimum": least, "maximum": most })
            }
            Schema::Yes => json!({ "type": "boolean" }),
            Schema::OneOf(words) => json!({ "type": "string", "enum": words }),
        }
    }
}

const ANYBODY: Takes = Takes { role: None, changes: None };
const VIEWER: Takes = Takes { role: Some(Role::Viewer), changes: None };

const fn operator(word: &'static str) -> Takes {
    Takes { role: Some(Role::Operator), changes: Some(word) }
}

const fn admin(word: &'static str) -> Takes {
    Takes { role: Some(Role::Admin), changes: Some(word) }
}

macro_rules! handler {
    ($handler:expr) => {
        |method| on(method, $handler)
    };
}

const GET: MethodFilter = MethodFilter::GET;
const POST: MethodFilter = MethodFilter::POST;
const DELETE: MethodFilter = MethodFilter::DELETE;
const MANY: u64 = i64::MAX as u64;

/// A route that only looks.
const fn seen(
    path: &'static str,
    summary: &'static str,
    query: &'static [Parameter],
    answers: &'static [Reply],
    handler: fn(MethodFilter) -> MethodRouter<App>,
) -> Route {
    let headers = &[];
    Route {
        method: GET,
        path,
        takes: VIEWER,
        summary,
        query,
        headers,
        body: None,
        answers,
        handler,
    }
}

const NO_BODY: &[Reply] = &[(204, "It is done, and safe in the log.", None)];

/// All routes.
const ROUTES: &[Route] = &[
    Route {
        method: GET,
        path: "/healthz",
        takes: ANYBODY,
        summary: "Whether the daemon is there.",
        query: &[],
        headers: &[],
        body: None,
        answers: &[(200, "It is.", Some("Health"))],
        handler: handler!(health::healthz),
    },
    Route {
        method: GET,
        path: "/readyz",
        takes: ANYBODY,
        summary: "Whether it can be given work: not while it brings runs back, when its log has failed, or when it is ending.",
        query: &[],
        headers: &[],
        body: None,
        answers: &[
            (200, "It can.", Some("Health")),
            (503, "It cannot now, and why.", Some("Health")),
        ],
        handler: handler!(health::readyz),
    },
    Route {
        method: GET,
        path: "/openapi.json",
        takes: ANYBODY,
        summary: "This document.",
        query: &[],
        headers: &[],
        body: None,
        answers: &[(200, "The document.", Some("Anything"))],
        handler: handler!(pages::openapi),
    },
    Route {
        method: GET,
        path: "/docs",
        takes: ANYBODY,
        summary: "This document as a page.",
        query: &[],
        headers: &[],
        body: None,
        answers: &[(200, "The page.", Some("Html"))],
        handler: handler!(pages::docs),
    },
    Route {
        method: GET,
        path: "/metrics",
        takes: VIEWER,
        summary: "What was counted and measured, for Prometheus.",
        query: &[],
        headers: &[],
        body: None,
        answers: &[(200, "The metrics.", Some("Text"))],
        handler: handler!(health::metrics),
    },
    Route {
        method: GET,
        path: "/api/v1/status",
        takes: VIEWER,
        summary: "How the runtime stands: its functions, how many runs go on, which are paused and why.",
        query: &[],
        headers: &[],
        body: None,
        answers: &[(200, "How it stands.", Some("Status"))],
        handler: handler!(look::status),
    },
    seen(
        "/api/v1/me",
        "Who asks, what they may do, and how that is known.",
        &[],
        &[(200, "Who.", Some("Me"))],
        handler!(me::me),
    ),
    seen(
        "/api/v1/diff",
        "Two runs side by side: where they part. From their records alone.",
        &[
            ("left", Schema::Text, "The first run."),
            ("right", Schema::Text, "The second one."),
            (
                "limit",
                Schema::Count(0, 10_000),
                "So many differences are told in full; by default 100.",
            ),
        ],
        &[(200, "Where they part.", Some("Diff"))],
        handler!(diff::compare),
    ),
    Route {
        method: GET,
        path: "/api/v1/runs",
        takes: VIEWER,
        summary: "The runs: filtered, sorted, a page at a time.",
        query: &[
            (
                "state",
                Schema::Text,
                "Only these states, separated by commas: live, paused, completed, failed, cancelled, damaged, removed.",
            ),
            ("function", Schema::Text, "Only runs of this function."),
            ("text", Schema::Text, "Only runs that have this in their id, function or UUID."),
            ("since", Schema::Moment, "Only runs that began at this moment or later."),
            ("before", Schema::Moment, "Only runs that began before this moment."),
            ("parent", Schema::Text, "Only forks of this run."),
            (
                "sort",
                Schema::OneOf(&["started", "ended", "id", "function"]),
                "By what they are sorted; by default by when they began.",
            ),
            ("order", Schema::OneOf(&["asc", "desc"]), "Times are by default `desc`, names `asc`."),
            ("limit", Schema::Count(1, 10_000), "How many at most; by default 100."),
            ("after", Schema::Text, "Go on after a page: its `next`."),
        ],
        headers: &[],
        body: None,
        answers: &[(200, "A page of runs.", Some("RunPage"))],
        handler: handler!(look::list),
    },
    Route {
        method: POST,
        path: "/api/v1/runs",
        takes: operator("submit"),
        summary: "Starts a run. The same id with the same function and input is the same run, however often it is asked for.",
        query: &[],
        headers: &[("Idempotency-Key", Schema::Text, "Instead of an id: the id is made from it.")],
        body: Some("Submit"),
        answers: &[
            (201, "The run is new, and safe in the log.", Some("Submitted")),
            (200, "The run was there already.", Some("Submitted")),
            (409, "The id belongs to a run with another function or input.", Some("Problem")),
        ],
        handler: handler!(submit::submit),
    },
    Route {
        method: GET,
        path: "/api/v1/runs/{run}",
        takes: VIEWER,
        summary: "One run: its tasks and what they wait for, or its value.",
        query: &[("wait", Schema::Count(0, 60), "Wait so many seconds for the end of the run.")],
        headers: &[],
        body: None,
        answers: &[(200, "The run.", Some("RunDetail"))],
        handler: handler!(look::show),
    },
    Route {
        method: DELETE,
        path: "/api/v1/runs/{run}",
        takes: admin("remove"),
        summary: "Removes a run that is over. Its id stays taken.",
        query: &[],
        headers: &[],
        body: None,
        answers: NO_BODY,
        handler: handler!(keep::remove),
    },
    Route {
        method: GET,
        path: "/api/v1/runs/{run}/records",
        takes: VIEWER,
        summary: "The records of a run, from any on: a page of JSON; with `Accept: application/x-ndjson` lines, and with `text/event-stream` events, both as they are written if asked to follow.",
        query: &[
            ("from", Schema::Count(0, MANY), "From this record on."),
            (
                "limit",
                Schema::Count(1, 10_000),
                "How many at most; by default 1000, or all of a stream.",
            ),
            ("follow", Schema::Yes, "Go on until the run is over; by default for events only."),
            (
                "order",
                Schema::OneOf(&["asc", "desc"]),
                "Of a page: `desc` has the last record first.",
            ),
            ("before", Schema::Count(0, MANY), "Of a page: only records before this one."),
            ("task", Schema::Count(0, MANY), "Of a page: only records of this task."),
            ("type", Schema::Text, "Of a page: only records of these types, separated by commas."),
            ("failed", Schema::Yes, "Of a page: only records of failures."),
            (
                "text",
                Schema::Text,
                "Of a page: only records that have this in their line, in small or capital letters.",
            ),
        ],
        headers: &[(
            "Last-Event-ID",
            Schema::Text,
            "Go on after this record, as a browser does by itself.",
        )],
        body: None,
        answers: &[(200, "The records.", Some("Records"))],
        handler: handler!(records::records),
    },
    seen(
        "/api/v1/runs/{run}/tasks",
        "The tasks of a run, where they stand or stood at a record: from its records alone.",
        &[("at", Schema::Count(1, MANY), "The record; by default the last one.")],
        &[(200, "The tasks.", Some("Tasks"))],
        handler!(chronicle::tasks),
    ),
    seen(
        "/api/v1/runs/{run}/timeline",
        "What the tasks of a run did over time: ran, or waited, and what for. From its records alone.",
        &[
            (
                "from",
                Schema::Count(0, MANY),
                "From this moment on, in microseconds since the first record.",
            ),
            ("to", Schema::Count(0, MANY), "Up to this one."),
            (
                "width",
                Schema::Count(1, 100_000),
                "So many pieces can be told apart: what is shorter is put together.",
            ),
            ("tids", Schema::Text, "Only these tasks: numbers and ranges, such as 3,5-8."),
        ],
        &[(200, "The timeline.", Some("Timeline"))],
        handler!(chronicle::timeline),
    ),
    seen(
        "/api/v1/runs/{run}/effects",
        "The effects of a run with their attempts, the newest first, and sums by name. From its records alone.",
        &[
            ("task", Schema::Count(0, MANY), "Only those of this task."),
            ("name", Schema::Text, "Only those of this name."),
            (
                "state",
                Schema::OneOf(&[
                    "queued",
                    "running",
                    "retrying",
                    "refused",
                    "completed",
                    "failed",
                    "left",
                ]),
                "Only those in this state; `left`: its task ended without it.",
            ),
            (
                "before",
                Schema::Count(0, MANY),
                "Only those called before this record: the `next` of a page.",
            ),
            ("limit", Schema::Count(1, 10_000), "How many at most; by default 100."),
        ],
        &[(200, "A page of effects.", Some("Effects"))],
        handler!(chronicle::effects),
    ),
    Route {
        method: GET,
        path: "/api/v1/events",
        takes: VIEWER,
        summary: "What all runs do while they do it, as events (SSE), or as a WebSocket on the same path.",
        query: &[
            (
                "from",
                Schema::Count(0, MANY),
                "From this event on, as far as it is still known; without it from now on.",
            ),
            (
                "epoch",
                Schema::Count(0, u64::MAX),
                "The process that `from` is of. If it is another one now, everything that is known is told.",
            ),
            ("all", Schema::Yes, "Every turn of every task too."),
            (
                "ghosts",
                Schema::Yes,
                "What happens again while a run is brought back; by default yes.",
            ),
        ],
        headers: &[(
            "Last-Event-ID",
            Schema::Text,
            "Go on after this event, as a browser does by itself.",
        )],
        body: None,
        answers: &[
            (200, "The events, until one side leaves.", Some("Events")),
            (101, "The same as a WebSocket.", None),
        ],
        handler: handler!(events::of_all),
    },
    Route {
        method: GET,
        path: "/api/v1/runs/{run}/events",
        takes: VIEWER,
        summary: "What one run does while it does it, in the same forms.",
        query: &[
            (
                "from",
                Schema::Count(0, MANY),
                "From this event on, as far as it is still known; without it from now on.",
            ),
            (
                "epoch",
                Schema::Count(0, u64::MAX),
                "The process that `from` is of. If it is another one now, everything that is known is told.",
            ),
            ("all", Schema::Yes, "Every turn of every task too."),
            (
                "ghosts",
                Schema::Yes,
                "What happens again while a run is brought back; by default yes.",
            ),
        ],
        headers: &[(
            "Last-Event-ID",
            Schema::Text,
            "Go on after this event, as a browser does by itself.",
        )],
        body: None,
        answers: &[
            (200, "The events, until one side leaves.", Some("Events")),
            (101, "The same as a WebSocket.", None),
        ],
        handler: handler!(events::of_run),
    },
    Route {
        method: POST,
        path: "/api/v1/runs/{run}/cancel",
        takes: operator("cancel"),
        summary: "Cancels a run.",
        query: &[],
        headers: &[],
        body: None,
        answers: NO_BODY,
        handler: handler!(actions::cancel),
    },
    Route {
        method: POST,
        path: "/api/v1/runs/{run}/messages",
        takes: operator("send"),
        summary: "Sends a message to a run.",
        query: &[],
        headers: &[],
        body: Some("Message"),
        answers: NO_BODY,
        handler: handler!(actions::send),
    },
    Route {
        method: POST,
        path: "/api/v1/runs/{run}/queries/{name}",
        takes: VIEWER,
        summary: "Asks a run something, which it answers from its memory.",
        query: &[],
        headers: &[],
        body: Some("Question"),
        answers: &[(200, "What it answered.", Some("Answer"))],
        handler: handler!(actions::query),
    },
    Route {
        method: POST,
        path: "/api/v1/runs/{run}/forks",
        takes: operator("fork"),
        summary: "Makes another run that is what this one was up to a record.",
        query: &[],
        headers: &[],
        body: Some("Fork"),
        answers: &[(201, "The fork.", Some("Forked"))],
        handler: handler!(actions::fork),
    },
    Route {
        method: POST,
        path: "/api/v1/runs/{run}/allow",
        takes: operator("allow"),
        summary: "Lets a fork do effects that it was refused.",
        query: &[],
        headers: &[],
        body: Some("Allow"),
        answers: NO_BODY,
        handler: handler!(actions::allow),
    },
    Route {
        method: POST,
        path: "/api/v1/runs/{run}/compact",
        takes: admin("compact"),
        summary: "Leaves of a run that is over what it was started with and what came of it.",
        query: &[],
        headers: &[],
        body: None,
        answers: &[(200, "What was done.", Some("Pruned"))],
        handler: handler!(keep::compact),
    },
    Route {
        method: GET,
        path: "/api/v1/runs/{run}/step",
        takes: Takes { role: Some(Role::Operator), changes: None },
        summary: "The run at one of its records: tasks, what they wait for, their variables. Runs its code in a process of its own; no effect begins.",
        query: &[("at", Schema::Count(1, MANY), "The record; by default the last one.")],
        headers: &[],
        body: None,
        answers: &[(200, "The run there.", Some("Anything"))],
        handler: handler!(rerun::step),
    },
    Route {
        method: POST,
        path: "/api/v1/runs/{run}/replay",
        takes: Takes { role: Some(Role::Operator), changes: None },
        summary: "Runs a run again against its log, in a process of its own and without its effects, and tells whether it is the same.",
        query: &[],
        headers: &[],
        body: None,
        answers: &[(200, "What came of it.", Some("Anything"))],
        handler: handler!(rerun::replay),
    },
    Route {
        method: POST,
        path: "/api/v1/promises/{promise}",
        takes: operator("settle"),
        summary: "Settles an external promise, with a value or with an error. The first answer counts.",
        query: &[],
        headers: &[],
        body: Some("Settle"),
        answers: &[(200, "Whether it was the first answer.", Some("Settled"))],
        handler: handler!(actions::settle),
    },
    Route {
        method: GET,
        path: "/api/v1/approvals",
        takes: VIEWER,
        summary: "The questions that wait for a person.",
        query: &[],
        headers: &[],
        body: None,
        answers: &[(200, "The questions.", Some("Approvals"))],
        handler: handler!(approvals::list),
    },
    Route {
        method: POST,
        path: "/api/v1/approvals/{id}/approve",
        takes: operator("approve"),
        summary: "Says yes to a question, or names one of its choices. The first answer counts.",
        query: &[],
        headers: &[],
        body: Some("Says"),
        answers: &[(200, "What was decided, as it is recorded.", Some("Decided"))],
        handler: handler!(approvals::approve),
    },
    Route {
        method: POST,
        path: "/api/v1/approvals/{id}/reject",
        takes: operator("reject"),
        summary: "Says no to a question: the last of its choices.",
        query: &[],
        headers: &[],
        body: Some("Says"),
        answers: &[(200, "What was decided, as it is recorded.", Some("Decided"))],
        handler: handler!(approvals::reject),
    },
    Route {
        method: GET,
        path: "/api/v1/doubts",
        takes: VIEWER,
        summary: "The steps that may have happened or not.",
        query: &[],
        headers: &[],
        body: None,
        answers: &[(200, "The steps.", Some("Doubts"))],
        handler: handler!(doubts::list),
    },
    Route {
        method: POST,
        path: "/api/v1/doubts",
        takes: admin("decide"),
        summary: "Decides on one of them.",
        query: &[],
        headers: &[],
        body: Some("Decision"),
        answers: NO_BODY,
        handler: handler!(doubts::decide),
    },
    Route {
        method: POST,
        path: "/api/v1/prune",
        takes: admin("prune"),
        summary: "Removes and compacts runs that are over by a rule.",
        query: &[],
        headers: &[],
        body: Some("Prune"),
        answers: &[(200, "What was planned, and what was done.", Some("Planned"))],
        handler: handler!(keep::prune),
    },
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

async fn no_path(request: Request) -> Response {
    let path = request.uri().path().chars().take(200).collect();
    Problem::from(DaemonError::NoPath(path)).into_response()
}

async fn no_method(request: Request) -> Response {
    Problem::from(DaemonError::NoMethod(request.method().to_string())).into_response()
}

fn method_word(method: MethodFilter) -> &'static str {
    match method {
        GET => "get",
        POST => "post",
        _ => "delete",
    }
}

/// The OpenAPI document.
pub(crate) fn document() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for route in ROUTES {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[method_word(route.method)] = operation(route);
    }
    let schemas: Value = serde_json::from_str(include_str!("schemas.json"))
        .unwrap_or_else(|error| json!({ "Problem": { "description": error.to_string() } }));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Tiffany",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Durable runs: started, watched and changed. Runs are named by their UUID, the beginning of it, or their id. Errors are `application/problem+json` with a code, which the book explains, and the next step.",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
    })
}

fn operation(route: &Route) -> Value {
    let place = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
    let in_path = route.path.split('/').filter_map(|part| {
        let name = part.strip_prefix('{')?.strip_suffix('}')?;
        let schema = json!({ "type": "string", "minLength": 1 });
        Some(json!({ "name": name, "in": "path", "required": true, "schema": schema }))
    });
    let given = |place: &'static str| move |(name, schema, about): &Parameter| json!({ "name": name, "in": place, "schema": schema.json(), "description": about });
    let parameters = in_path
        .chain(route.query.iter().map(given("query")))
        .chain(route.headers.iter().map(given("header")));
    let mut responses: Map<String, Value> = Map::new();
    for (status, about, schema) in route.answers.iter().filter(|(status, ..)| *status >= 200) {
        let mut response = json!({ "description": about });
        if let Some(name) = schema {
            let kinds: &[&str] = match *name {
                "Html" => &["text/html"],
                "Text" => &["text/plain"],
                "Events" => &["text/event-stream"],
                "Problem" => &["application/problem+json"],
                "Records" => &["application/json", "application/x-ndjson", "text/event-stream"],
                _ => &["application/json"],
            };
            let kinds = kinds.iter().map(|kind| {
                let schema = match *kind {
                    "application/x-ndjson" => json!({ "type": "string" }),
                    "text/event-stream" if *name == "Records" => json!({ "type": "string" }),
                    _ => place(name),
                };
                ((*kind).to_owned(), json!({ "schema": schema }))
            });
            response["content"] = Value::Object(kinds.collect());
        }
        responses.insert(status.to_string(), response);
    }
    let problem = json!({ "application/problem+json": { "schema": place("Problem") } });
    responses.entry("default").or_insert_with(
        || json!({ "description": "It was refused, and why.", "content": problem }),
    );
    let mut operation = json!({
        "summary": route.summary,
        "operationId": operation_id(route),
        "parameters": parameters.collect::<Vec<_>>(),
        "responses": responses,
    });
    if let Some(name) = route.body {
        let is_needed = !matches!(name, "Question" | "Says");
        operation["requestBody"] = json!({
            "required": is_needed,
            "content": { "application/json": { "schema": place(name) } },
        });
    }
    if let Some(role) = route.takes.role {
        operation["security"] = json!([{}, { "token": [] }]);
        operation["x-role"] = json!(role.word());
    }
    operation
}

fn operation_id(route: &Route) -> String {
    let words =
        route.path.split('/').filter(|part| !part.is_empty() && *part != "api" && *part != "v1");
    let words = words.map(|part| part.trim_matches(['{', '}']).replace('.', "_"));
    std::iter::once(method_word(route.method).to_owned()).chain(words).collect::<Vec<_>>().join("_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_schema_that_is_named_is_there_and_every_one_that_is_there_is_named() {
        let document = document();
        let text = document.to_string();
        let schemas = document["components"]["schemas"].as_object().unwrap();
        for name in schemas.keys() {
            assert!(text.contains(&format!("#/components/schemas/{name}\"")), "{name} is not used");
        }
        for part in text.split("#/components/schemas/").skip(1) {
            let name = part.split('"').next().unwrap();
            assert!(schemas.contains_key(name), "there is no {name}");
        }
    }

    #[test]
    fn operations_have_names_of_their_own() {
        let mut names: Vec<String> = ROUTES.iter().map(operation_id).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count, "{names:?}");
    }
}
