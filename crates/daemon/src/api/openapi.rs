//! The OpenAPI document, built from the table of routes and the schemas beside it. It doesn't
//! depend on any handler.

use serde_json::{Map, Value, json};

use super::routes::{Body, Parameter, ROUTES, Reply, Route, Schema};

impl Schema {
    fn json(self) -> Value {
        match self {
            Schema::Text => json!({ "type": "string" }),
            Schema::Is(name) => schema(name),
            Schema::Count(least, most) => {
                json!({ "type": "integer", "minimum": least, "maximum": most })
            }
            Schema::Yes => json!({ "type": "boolean" }),
            Schema::OneOf(words) => json!({ "type": "string", "enum": words }),
        }
    }
}

/// Builds the OpenAPI document.
pub(crate) fn document() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for route in ROUTES {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method()] = operation(route);
    }
    let schemas: Value = serde_json::from_str(include_str!("schemas.json"))
        .unwrap_or_else(|error| json!({ "Problem": { "description": error.to_string() } }));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Tiffany",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Starts, shows and controls durable runs. A run is named by its UUID, the beginning of its UUID, or its ID. Errors are `application/problem+json` with a code that the book explains, and the next step.",
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
    let mut operation = json!({
        "summary": route.about,
        "operationId": operation_id(route),
        "tags": [tag(route)],
        "parameters": parameters(route),
        "responses": responses(route),
    });
    if let Some(body) = route.body {
        let (name, required) = match body {
            Body::Needed(name) => (name, true),
            Body::IfGiven(name) => (name, false),
        };
        let content = json!({ "application/json": { "schema": schema(name) } });
        operation["requestBody"] = json!({ "required": required, "content": content });
    }
    if let Some(role) = route.takes.role {
        operation["security"] = json!([{}, { "token": [] }]);
        operation["x-role"] = json!(role.word());
    }
    operation
}

fn schema(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

fn parameters(route: &Route) -> Vec<Value> {
    let in_path = route.path.split('/').filter_map(|part| {
        let name = part.strip_prefix('{')?.strip_suffix('}')?;
        let schema = schema(match name {
            "promise" => "Uuid",
            "hash" => "Hash",
            _ => "Name",
        });
        Some(json!({ "name": name, "in": "path", "required": true, "schema": schema }))
    });
    let given = |place: &'static str| move |(name, schema, about): &Parameter| json!({ "name": name, "in": place, "schema": schema.json(), "description": about });
    let query = route.query.iter().map(given("query"));
    in_path.chain(query).chain(route.headers.iter().map(given("header"))).collect()
}

fn responses(route: &Route) -> Map<String, Value> {
    // Status 101, where HTTP ends, cannot be described in the document.
    let answers = route.answers.iter().filter(|(status, ..)| *status >= 200);
    let mut responses: Map<String, Value> = answers.map(response).collect();
    let refused = json!({
        "description": "The request was refused, with the reason.",
        "headers": { "Retry-After": { "description": "How many seconds to wait before the next try.", "schema": { "type": "integer" } } },
        "content": content("Problem"),
    });
    responses.insert("default".into(), refused);
    responses
}

fn response((status, about, name): &Reply) -> (String, Value) {
    let mut response = json!({ "description": about });
    if let Some(name) = name {
        response["content"] = content(name);
        if matches!(*name, "Submitted" | "Forked") {
            let place = json!({ "description": "The run.", "required": true, "schema": { "type": "string" } });
            response["headers"] = json!({ "Location": place });
            response["links"] = Value::Object(links().collect());
        }
    }
    (status.to_string(), response)
}

/// Links from a run that was started to the requests about it.
fn links() -> impl Iterator<Item = (String, Value)> {
    let of_run = ROUTES.iter().filter(|route| route.path.starts_with("/api/v1/runs/{run}"));
    of_run.map(|route| {
        let name = operation_id(route);
        let given = json!({ "run": "$response.body#/uuid" });
        (name.clone(), json!({ "operationId": name, "parameters": given }))
    })
}

/// Returns the media types in which a body of this schema is sent.
fn content(name: &str) -> Value {
    let of = |name: &str| json!({ "schema": schema(name) });
    match name {
        "Html" => json!({ "text/html": of(name) }),
        "Text" => json!({ "text/plain": of(name) }),
        "Events" => json!({ "text/event-stream": of(name) }),
        "Value" => json!({ "application/json": of(name), "application/octet-stream": of("Bytes") }),
        "Problem" => json!({ "application/problem+json": of(name) }),
        "Records" => json!({
            "application/json": of(name),
            "application/x-ndjson": of("Text"),
            "text/event-stream": of("RecordEvent"),
        }),
        _ => json!({ "application/json": of(name) }),
    }
}

/// Returns the tag of a route: the first word of its path.
fn tag(route: &Route) -> &'static str {
    let rest = route.path.strip_prefix("/api/v1/");
    rest.and_then(|rest| rest.split('/').next()).unwrap_or("daemon")
}

fn operation_id(route: &Route) -> String {
    let words =
        route.path.split('/').filter(|part| !part.is_empty() && *part != "api" && *part != "v1");
    let words = words.map(|part| part.trim_matches(['{', '}']).replace('.', "_"));
    std::iter::once(route.method().to_owned()).chain(words).collect::<Vec<_>>().join("_")
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
