//! One connection to a daemon: a request at a time, with hyper and rustls, on a runtime of its own that runs while an answer is
//! waited for. It knows no route.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Method, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use serde_json::value::RawValue;
use tiffany_kernel::{ErrorKind, TaskError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::settings::{Remote, coded, not_a_daemon, old_daemon};

/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an answer may take. A daemon gives up after 30 seconds, and says why.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(35);

/// The most bytes of an answer that is read at once.
const MAX_ANSWER_BYTES: usize = 256 << 20;
/// The most bytes of the answer to a request that was refused.
const MAX_PROBLEM_BYTES: usize = 1 << 20;

/// A request.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) body: Option<Value>,
    /// A value of the program's in the body, and its name there. It is sent as it was given.
    pub(super) value: Option<(&'static str, Box<RawValue>)>,
    pub(super) accept: &'static str,
}

impl Sent {
    pub(super) fn get(path: impl Into<String>) -> Sent {
        let (body, value) = (None, None);
        Sent { method: Method::GET, path: path.into(), body, value, accept: "application/json" }
    }

    pub(super) fn post(path: impl Into<String>, body: Value) -> Sent {
        Sent { method: Method::POST, body: Some(body), ..Sent::get(path) }
    }

    pub(super) fn delete(path: impl Into<String>) -> Sent {
        Sent { method: Method::DELETE, ..Sent::get(path) }
    }

    /// Adds a value of the program's to the body, which is an object.
    pub(super) fn with(self, name: &'static str, value: &RawValue) -> Sent {
        Sent { value: Some((name, value.to_owned())), ..self }
    }

    /// The body as it is sent.
    fn text(&self) -> String {
        let mut text = self.body.as_ref().map(Value::to_string).unwrap_or_default();
        if let Some((name, value)) = &self.value {
            text.truncate(text.len().saturating_sub(1));
            let comma = if text.ends_with('{') { "" } else { "," };
            text.push_str(&format!("{comma}\"{name}\":{}}}", value.get()));
        }
        text
    }

    pub(super) fn accepting(self, accept: &'static str) -> Sent {
        Sent { accept, ..self }
    }

    /// The request as errors name it.
    pub(super) fn what(&self) -> String {
        let path = self.path.split('?').next().unwrap_or_default();
        format!("`{} {path}`", self.method)
    }
}

pub(super) struct Connection {
    remote: Arc<Remote>,
    runtime: Runtime,
    sender: Option<SendRequest<Full<Bytes>>>,
}

impl Connection {
    pub(super) fn new(remote: &Arc<Remote>) -> Result<Connection, TaskError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime
            .map_err(|error| TaskError::new(ErrorKind::Host, format!("no connection: {error}")))?;
        Ok(Connection { remote: Arc::clone(remote), runtime, sender: None })
    }

    /// Sends a request and reads its answer as JSON; nothing is null.
    pub(super) fn json(&mut self, sent: &Sent) -> Result<Value, TaskError> {
        let bytes = self.bytes(sent)?;
        if bytes.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&bytes).map_err(|_| old_daemon(&format!("{} as JSON", sent.what())))
    }

    /// Sends a request and reads its answer.
    pub(super) fn bytes(&mut self, sent: &Sent) -> Result<Bytes, TaskError> {
        let response = self.begin(sent)?;
        let (remote, body) = (Arc::clone(&self.remote), response.into_body());
        let body = Limited::new(body, MAX_ANSWER_BYTES);
        let read = self.runtime.block_on(async { timeout(ANSWER_TIMEOUT, body.collect()).await });
        match read {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(error)) => Err(lost(&remote, &error)),
            Err(_) => Err(lost(&remote, &"the answer took too long")),
        }
    }

    /// Sends a request and returns its answer, whose body is read piece by piece. An error if it is a refusal.
    pub(super) fn begin(&mut self, sent: &Sent) -> Result<Response<Incoming>, TaskError> {
        let remote = Arc::clone(&self.remote);
        let body = sent.text();
        let mut request = hyper::Request::builder()
            .method(sent.method.clone())
            .uri(&sent.path)
            .header("host", remote.authority())
            .header("accept", sent.accept);
        if sent.body.is_some() {
            request = request.header("content-type", "application/json");
        }
        if let Some(token) = remote.token() {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(Full::new(Bytes::from(body)));
        let request =
            request.map_err(|error| TaskError::new(ErrorKind::BadArgument, error.to_string()))?;
        let sender = self.sender.take().filter(|sender| !sender.is_closed());
        let answered = self.runtime.block_on(async {
            let mut sender = match sender {
                Some(sender) => sender,
                None => open(&remote).await?,
            };
            let answer = timeout(ANSWER_TIMEOUT, sender.send_request(request)).await;
            let answer = answer.map_err(|_| unsure(&remote, &"it has not answered"))?;
            let answer = answer.map_err(|error| match error.is_parse() {
                true => not_a_daemon(&remote.url, "it does not speak HTTP/1.1"),
                false => unsure(&remote, &error),
            })?;
            Ok::<_, TaskError>((sender, answer))
        });
        let (sender, answer) = answered?;
        if answer.status().is_success() {
            self.sender = Some(sender);
            return Ok(answer);
        }
        let status = answer.status().as_u16();
        let body = {
            let body = Limited::new(answer.into_body(), MAX_PROBLEM_BYTES);
            self.runtime.block_on(async { timeout(ANSWER_TIMEOUT, body.collect()).await })
        };
        let body = body.ok().and_then(Result::ok).map(|body| body.to_bytes()).unwrap_or_default();
        Err(refused(&remote, sent, status, &body))
    }

    /// The next piece of a body; `None` at its end.
    pub(super) fn piece(
        &mut self,
        body: &mut Incoming,
        within: Duration,
    ) -> Result<Piece, TaskError> {
        let frame = self.runtime.block_on(async { timeout(within, body.frame()).await });
        Ok(match frame {
            Err(_) => Piece::Nothing,
            Ok(None) => Piece::End,
            Ok(Some(Ok(frame))) => frame.into_data().map_or(Piece::Nothing, Piece::Data),
            Ok(Some(Err(error))) => return Err(lost(&self.remote, &error)),
        })
    }
}

/// What came of waiting for a piece of a body.
pub(super) enum Piece {
    Data(Bytes),
    /// Nothing came in time.
    Nothing,
    End,
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

async fn open(remote: &Remote) -> Result<SendRequest<Full<Bytes>>, TaskError> {
    let connecting = TcpStream::connect((remote.host.as_str(), remote.port));
    let stream = timeout(CONNECT_TIMEOUT, connecting).await;
    let stream = stream.map_err(|_| lost(remote, &"it did not answer in time"))?;
    let stream = stream.map_err(|error| lost(remote, &error))?;
    drop(stream.set_nodelay(true));
    let stream: Box<dyn Stream> = match &remote.tls {
        None => Box::new(stream),
        Some((config, name)) => {
            let connector = TlsConnector::from(Arc::clone(config));
            let shaken = timeout(CONNECT_TIMEOUT, connector.connect(name.clone(), stream)).await;
            let shaken = shaken.map_err(|_| lost(remote, &"it did not answer in time"))?;
            Box::new(shaken.map_err(|error| no_tls(remote, &error))?)
        }
    };
    let (sender, connection) =
        handshake(TokioIo::new(stream)).await.map_err(|error| lost(remote, &error))?;
    // It ends with the runtime, or when the sender is gone.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

fn lost(remote: &Remote, why: &dyn std::fmt::Display) -> TaskError {
    let what = format!("the daemon at {} could not be reached: {why}", remote.url);
    coded("TFY0300", what, "check that it runs, and that it can be reached from here")
}

fn unsure(remote: &Remote, why: &dyn std::fmt::Display) -> TaskError {
    let what = format!("the connection to the daemon at {} was lost: {why}", remote.url);
    let next = "if the command was to change something, see with `show` or `ls` whether it did before you repeat it";
    coded("TFY0300", what, next)
}

fn no_tls(remote: &Remote, error: &std::io::Error) -> TaskError {
    let text = error.to_string();
    let next = match () {
        () if text.contains("UnknownIssuer") => {
            "give the certificate of the authority that signed the daemon's with `--ca`"
        }
        () if text.contains("InvalidContentType") || text.contains("corrupt") => {
            "the daemon has no TLS there: use http://, or turn TLS on in its configuration"
        }
        () => "check the daemon's certificate, and the name in the URL",
    };
    coded("TFY0301", format!("no TLS connection with {}: {text}", remote.url), next)
}

/// The error of an answer that is a problem. Codes of runs become errors of their kind again.
fn refused(remote: &Remote, sent: &Sent, status: u16, body: &[u8]) -> TaskError {
    let problem: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |name: &str| problem[name].as_str().unwrap_or_default();
    let (code, title, next) = (text("code"), text("title"), text("next"));
    match code {
        "" => not_a_daemon(&remote.url, &format!("it answered {} with {status}", sent.what())),
        "TFY0162" | "TFY0163" => old_daemon(&sent.what()),
        code => match ErrorKind::ALL.iter().find(|kind| kind.code() == code) {
            Some(kind) => TaskError::new(*kind, title.to_owned()),
            None if code < "TFY0155" => {
                TaskError::new(ErrorKind::LogFailed, format!("{title} [{code}]; {next}"))
            }
            None => coded(code, title, next),
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_sent_as_they_were_given() {
        for given in ["1e999", "123456789012345678901234567890", r#"{"a":1,"a":2}"#, r#""\ud800""#]
        {
            let value = RawValue::from_string(given.to_owned()).unwrap();
            let text = |body| Sent::post("/", body).with("input", &value).text();
            assert_eq!(text(json!({ "id": "a" })), format!(r#"{{"id":"a","input":{given}}}"#));
            assert_eq!(text(json!({})), format!(r#"{{"input":{given}}}"#));
        }
        assert_eq!(Sent::post("/", json!({ "id": "a" })).text(), r#"{"id":"a"}"#);
        assert_eq!(Sent::get("/").text(), "");
    }
}
