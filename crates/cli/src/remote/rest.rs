//! How each request is asked over HTTP, and how its answer is read.

use serde_json::value::RawValue;
use serde_json::{Value, json};
use tiffany::Settlement;
use tiffany::control::{Answer, Decision, Doubt, Paused, Request, RunQuery, Status};
use tiffany_kernel::{ErrorKind, TaskError, Uuid};
use tiffany_records::attributes::json_of_values;
use tiffany_records::request::{ForkReply, Ruling, StartDeadline, StartOptions, moment};

use super::connection::Sent;
use super::settings::needs_files;

/// Reads an answer. `None`: it is not what a daemon of this version answers.
pub(super) type Read = Box<dyn Fn(Value) -> Option<Answer>>;

const API: &str = "/api/v1";

/// The request as it is sent, and how its answer is read.
pub(super) fn of(request: &Request) -> Result<(Sent, Read), TaskError> {
    let run = |run: &Uuid, tail: &str| format!("{API}/runs/{run}{tail}");
    Ok(match request {
        Request::Status => (Sent::get(format!("{API}/status")), Box::new(status)),
        Request::Health => (Sent::get(format!("{API}/me")), Box::new(|_| Some(Answer::Done))),
        Request::Runs(query) => {
            (Sent::get(list(query)), Box::new(|told| Some(Answer::Runs(read(told)?))))
        }
        Request::Find { name } => (
            Sent::get(format!("{API}/runs/{}", escaped(name))),
            Box::new(|told| Some(Answer::Found(uuid(&told["uuid"])?))),
        ),
        Request::Show { run: of } => {
            (Sent::get(run(of, "")), Box::new(|told| Some(Answer::Shown(Box::new(read(told)?)))))
        }
        Request::Submit { function, id, input, options } => {
            let mut body = json!({ "function": function, "id": id });
            add_options(&mut body, options);
            (
                Sent::post(format!("{API}/runs"), body).with("input", input),
                Box::new(|told| {
                    Some(Answer::Run { run: uuid(&told["uuid"])?, is_new: told["new"].as_bool()? })
                }),
            )
        }
        Request::Send { run: of, name, message } => {
            let body = json!({ "name": name });
            done(Sent::post(run(of, "/messages"), body).with("message", message))
        }
        Request::Settle { run: of, promise, result } => {
            let mut body = match result {
                Ok(_) => json!({}),
                Err(error) => json!({ "error": error.message() }),
            };
            if let Some(of) = of {
                body["run"] = of.to_string().into();
            }
            let sent = Sent::post(format!("{API}/promises/{promise}"), body);
            (
                match result {
                    Ok(given) => sent.with("value", given),
                    Err(_) => sent,
                },
                Box::new(|told| {
                    let first = told["first"].as_bool()?;
                    let settlement = if first { Settlement::Accepted } else { Settlement::Ignored };
                    Some(Answer::Settled(settlement))
                }),
            )
        }
        Request::Cancel { run: of } => done(Sent::post(run(of, "/cancel"), json!({}))),
        Request::Hold { run: of, why, .. } => {
            done(Sent::post(run(of, "/hold"), reason(why.as_deref())))
        }
        Request::Release { run: of, why, .. } => {
            done(Sent::post(run(of, "/release"), reason(why.as_deref())))
        }
        Request::Question { run: of, name, input } => (
            Sent::post(run(of, &format!("/queries/{}", escaped(name))), json!({}))
                .with("input", input),
            Box::new(|told| {
                let answer = RawValue::from_string(told.get("answer")?.to_string());
                Some(Answer::Value(answer.ok()?))
            }),
        ),
        Request::Fork { run: of, at, fork } => {
            let mut body = json!({ "at": at, "as_is": fork.is_as_is(), "allow": fork.allowed() });
            if let Some(id) = fork.new_id() {
                body["id"] = id.into();
            }
            if let Some(ForkReply::Error(error)) = fork.reply() {
                body["error"] = error.message().into();
            }
            let sent = Sent::post(run(of, "/forks"), body);
            (
                match fork.reply() {
                    Some(ForkReply::Value(given)) => sent.with("value", given),
                    _ => sent,
                },
                Box::new(|told| {
                    let id = told["id"].as_str()?.to_owned();
                    Some(Answer::Forked { run: uuid(&told["uuid"])?, id })
                }),
            )
        }
        Request::Allow { run: of, names } => {
            done(Sent::post(run(of, "/allow"), json!({ "names": names })))
        }
        Request::Remove { runs } if runs.len() == 1 => {
            (Sent::delete(run(&runs[0], "")), Box::new(|_| Some(Answer::Each(vec![Ok(())]))))
        }
        Request::Metrics => {
            (Sent::get("/metrics"), Box::new(|told| Some(Answer::Metrics(read(told)?))))
        }
        Request::LongTurns => (
            Sent::get(format!("{API}/stuck?limit=1")),
            Box::new(|told| Some(Answer::LongTurns(read(told["turns"].clone())?))),
        ),
        Request::Doubts => (
            Sent::get(format!("{API}/doubts")),
            Box::new(|told| {
                let doubts: Vec<Doubt> = read(told["doubts"].clone())?;
                Some(Answer::Doubts(doubts))
            }),
        ),
        Request::Decide { key, decision } => {
            let post = |body| Sent::post(format!("{API}/doubts"), body);
            done(match decision {
                Decision::Done(given) => post(json!({ "key": key })).with("done", given),
                Decision::Failed(message) => post(json!({ "key": key, "failed": message })),
                Decision::Again => post(json!({ "key": key, "again": true })),
            })
        }
        Request::Approvals => (
            Sent::get(format!("{API}/approvals")),
            Box::new(|told| Some(Answer::Approvals(read(told["approvals"].clone())?))),
        ),
        Request::Resolve { approval, ruling } => resolve(approval, ruling),
        _ => return Err(needs_files("this")),
    })
}

fn done(sent: Sent) -> (Sent, Read) {
    (sent, Box::new(|_| Some(Answer::Done)))
}

fn read<T: serde::de::DeserializeOwned>(told: Value) -> Option<T> {
    serde_json::from_str(&told.to_string()).ok()
}

fn uuid(told: &Value) -> Option<Uuid> {
    Uuid::parse(told.as_str()?)
}

fn reason(why: Option<&str>) -> Value {
    why.map_or_else(|| json!({}), |why| json!({ "why": why }))
}

/// Who decides is the owner of the token.
fn resolve(approval: &str, ruling: &Ruling) -> (Sent, Read) {
    let told = serde_json::to_value(ruling).unwrap_or_default();
    let mut body = json!({});
    if let Some(choice) = told["pick"]["choice"].as_str() {
        body["choice"] = choice.into();
    }
    if let Some(why) = told["why"].as_str() {
        body["because"] = why.into();
    }
    let place = match approval.rsplit_once('/') {
        Some((run, call)) => format!("{}/{}", escaped(run), escaped(call)),
        None => escaped(approval),
    };
    let word = ruling.word();
    (
        Sent::post(format!("{API}/approvals/{place}/{word}"), body),
        Box::new(|told| Some(Answer::Approval(read(told)?))),
    )
}

fn status(told: Value) -> Option<Answer> {
    let paused = told["paused"].as_array()?.iter().map(|paused| {
        let error = error_of(&paused["code"], &paused["message"])?;
        Some(Paused { run: uuid(&paused["run"])?, error })
    });
    let failed = match &told["failed"] {
        Value::Null => None,
        failed => Some(error_of(&failed["code"], &failed["title"])?),
    };
    Some(Answer::Status(Status {
        pid: u32::try_from(told["pid"].as_u64()?).ok()?,
        version: told["version"].as_str()?.to_owned(),
        functions: read(told["functions"].clone())?,
        url: told["url"].as_str().map(str::to_owned),
        live: usize::try_from(told["live"].as_u64()?).ok()?,
        paused: paused.collect::<Option<_>>()?,
        failed,
    }))
}

fn error_of(code: &Value, message: &Value) -> Option<TaskError> {
    let (code, message) = (code.as_str()?, message.as_str()?.to_owned());
    let kind = ErrorKind::ALL.iter().find(|kind| kind.code() == code);
    Some(TaskError::new(kind.copied().unwrap_or(ErrorKind::Failed), message))
}

/// Adds tags, attributes and a deadline, if there are any: older daemons refuse what they don't know.
fn add_options(body: &mut Value, options: &StartOptions) {
    if !options.tags.is_empty() {
        body["tags"] = json!(options.tags);
    }
    if !options.attributes.is_empty() {
        body["attributes"] =
            serde_json::from_str(&json_of_values(&options.attributes)).unwrap_or_default();
    }
    match options.deadline {
        Some(StartDeadline::At(time)) => body["deadline"] = moment(time).into(),
        Some(StartDeadline::After(duration)) => body["deadline"] = duration.as_secs_f64().into(),
        None => {}
    }
}

/// A tag in a list, in which commas separate tags that have none.
fn listed(tag: &str) -> String {
    match tag.contains([',', '"']) {
        true => Value::from(tag).to_string(),
        false => tag.to_owned(),
    }
}

/// The address of a list of runs.
pub(super) fn list(query: &RunQuery) -> String {
    let mut asked: Vec<(&str, String)> = Vec::new();
    if !query.states.is_empty() {
        let states: Vec<&str> = query.states.iter().map(|state| state.word()).collect();
        asked.push(("state", states.join(",")));
    }
    asked.extend(query.function.clone().map(|function| ("function", function)));
    asked.extend(query.text.clone().map(|text| ("text", text)));
    asked.extend(query.since.map(|since| ("since", moment(since))));
    asked.extend(query.before.map(|before| ("before", moment(before))));
    asked.extend(query.parent.map(|parent| ("parent", parent.to_string())));
    if !query.tags.is_empty() {
        let tags: Vec<String> = query.tags.iter().map(|tag| listed(tag)).collect();
        asked.push(("tag", tags.join(",")));
    }
    if !query.attributes.is_empty() {
        let filters: Vec<String> = query.attributes.iter().map(ToString::to_string).collect();
        asked.push(("attribute", filters.join(",")));
    }
    asked.push(("sort", query.sort.word().into()));
    asked.push(("order", if query.descending { "desc" } else { "asc" }.into()));
    asked.push(("limit", query.limit.clamp(1, RunQuery::MAX_LIMIT).to_string()));
    asked.extend(query.after.clone().map(|after| ("after", after)));
    let asked: Vec<String> =
        asked.iter().map(|(name, value)| format!("{name}={}", escaped(value))).collect();
    format!("{API}/runs?{}", asked.join("&"))
}

/// A text as a part of an address.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                escaped.push(byte.into())
            }
            byte => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}
