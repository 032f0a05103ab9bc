//! Access over HTTP: tokens and roles, certificates, and what the audit file records.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::kit::{self, Answer, Dir, House, LIMIT, program};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tiffany::control::Control;
use tiffany_daemon::Daemon;
use tiffany_daemon::audit::{AUDIT, Entry, joined, read};
use tiffany_daemon::auth::{Role, Tokens};
use tiffany_daemon::config::Config;

/// Starts a daemon with this configuration; relative paths in it start at the directory.
fn house(dir: &Dir, config: &'static str) -> House {
    std::fs::create_dir_all(&dir.0).unwrap();
    House::of(&dir.0, move |dir| {
        let config = Config::parse(config, &dir.join("tiffany.toml")).unwrap();
        Daemon::new(program(), dir).config(config)
    })
}

fn bearer(dir: &Dir, name: &str, role: Role) -> String {
    format!("Bearer {}", Tokens::at(&dir.0).add(name, role, None).unwrap().reveal())
}

fn code(answer: &Answer) -> String {
    answer.json()["code"].as_str().unwrap_or_default().to_owned()
}

/// Returns the lines of the audit file: client, change, target and outcome.
fn audited(dir: &Path) -> Vec<(String, String, String, String)> {
    let text = std::fs::read_to_string(dir.join(AUDIT)).unwrap();
    let entries = joined(read(&text).map(|line| line.unwrap())).into_iter();
    entries
        .map(|line| line.entry)
        .map(|Entry { who, did, to, outcome, .. }| (who, did, to.unwrap_or_default(), outcome))
        .collect()
}

#[test]
fn each_role_may_do_what_it_is_for_and_no_more() {
    let dir = Dir::new();
    let house = house(&dir, "require_token = true");
    let tokens = Role::ALL.map(|role| (role, bearer(&dir, role.word(), role)));
    let uuid = "00000000-0000-4000-8000-000000000000";
    let cases = [
        ("GET", "/api/v1/runs".to_owned(), Role::Viewer),
        ("GET", "/api/v1/runs/x".into(), Role::Viewer),
        ("GET", "/api/v1/approvals".into(), Role::Viewer),
        ("GET", "/api/v1/doubts".into(), Role::Viewer),
        // A query is answered from memory, and changes nothing.
        ("POST", "/api/v1/runs/x/queries/name".into(), Role::Viewer),
        ("POST", "/api/v1/runs".into(), Role::Operator),
        ("POST", "/api/v1/runs/x/cancel".into(), Role::Operator),
        ("POST", "/api/v1/runs/x/messages".into(), Role::Operator),
        ("POST", "/api/v1/runs/x/forks".into(), Role::Operator),
        ("POST", format!("/api/v1/promises/{uuid}"), Role::Operator),
        ("DELETE", "/api/v1/runs/x".into(), Role::Admin),
        ("POST", "/api/v1/runs/x/compact".into(), Role::Admin),
    ];
    for (method, path, needs) in &cases {
        let nobody = house.ask(method, path, &[], "");
        assert_eq!((nobody.status, code(&nobody)), (401, "TFY0170".into()), "{method} {path}");
        assert!(nobody.head.to_lowercase().contains("www-authenticate: bearer"), "{}", nobody.head);
        let wrong = house.ask(method, path, &[("authorization", "Bearer tfy_wrong")], "");
        assert_eq!((wrong.status, code(&wrong)), (401, "TFY0171".into()), "{method} {path}");
        for (role, token) in &tokens {
            let answer = house.ask(method, path, &[("authorization", token)], "");
            let may = role >= needs;
            assert_eq!(answer.status != 403, may, "{role} {method} {path}: {answer:?}");
            assert_eq!(code(&answer) != "TFY0173", may, "{role} {method} {path}: {answer:?}");
            assert_ne!(answer.status, 401);
        }
    }
    // Liveness needs no token.
    assert_eq!(house.get("/healthz").status, 200);
    // A removed token stops working at once.
    Tokens::at(&dir.0).remove("viewer").unwrap();
    let (_, token) = &tokens[0];
    assert_eq!(house.ask("GET", "/api/v1/runs", &[("authorization", token)], "").status, 401);
}

#[test]
fn pages_of_others_get_nothing() {
    let dir = Dir::new();
    let house = House::open(&dir);
    let page = [("origin", "http://evil.example")];
    let answer = house.ask("POST", "/api/v1/runs", &page, "{\"function\":\"echo\",\"input\":1}");
    assert_eq!((answer.status, code(&answer)), (403, "TFY0174".into()));
    assert!(!answer.head.to_lowercase().contains("access-control-allow-origin"));
    let (host, own) = (house.address.to_string(), format!("http://{}", house.address));
    let port = house.address.port();
    let body = "{\"function\":\"echo\",\"id\":\"e\",\"input\":1}";
    let ask = |more: &[(&str, &str)]| {
        let headers: Vec<(&str, &str)> = [("host", &*host)].iter().chain(more).copied().collect();
        house.ask("POST", "/api/v1/runs", &headers, body)
    };
    // Another program on this machine is another origin.
    let others = ["http://localhost:3000", "http://127.0.0.1:3000", &format!("https://{host}")];
    for origin in others.into_iter().chain([&*format!("http://localhost:{port}")]) {
        let answer = ask(&[("origin", origin)]);
        assert_eq!((answer.status, code(&answer)), (403, "TFY0174".into()), "{origin}");
        let upgrade = [("host", &*host), ("origin", origin), ("upgrade", "websocket")];
        assert_eq!(house.ask("GET", "/api/v1/events", &upgrade, "").status, 403, "{origin}");
    }
    // Any page can send a form without permission.
    let form = ("content-type", "application/x-www-form-urlencoded");
    let answer = ask(&[("origin", &own), form]);
    assert_eq!((answer.status, code(&answer)), (415, "TFY0166".into()));
    assert_eq!(ask(&[("origin", &own)]).status, 201);
    // Not every browser sends the origin of a form, and a form without fields has no body.
    assert_eq!(ask(&[form]).problem(), (415, "TFY0166".into()));
    house.submit("wait", "w", "null");
    for kind in [form.1, "multipart/form-data; boundary=x", "text/plain"] {
        let headers = [("host", &*host), ("content-type", kind)];
        let cancelled = house.ask("POST", "/api/v1/runs/w/cancel", &headers, "");
        assert_eq!(cancelled.problem(), (415, "TFY0166".into()), "{kind}");
    }
    assert_eq!(house.get("/api/v1/runs/w").json()["state"], "live");
    let typeless =
        "POST /api/v1/runs/w/cancel HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n";
    let mut line = house.connect();
    line.write_all(typeless.as_bytes()).unwrap();
    assert_eq!(kit::read_answer(&mut line).status, 204);
}

/// Reads until the other side closes the connection, and returns how long that took.
fn until_closed(line: &mut TcpStream) -> Duration {
    let (begun, mut piece) = (Instant::now(), [0; 4096]);
    loop {
        match line.read(&mut piece) {
            Ok(0) => return begun.elapsed(),
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {
                return begun.elapsed();
            }
            Err(error) => panic!("not closed after {:?}: {error}", begun.elapsed()),
        }
    }
}

#[test]
fn streams_of_a_removed_token_end_soon_whether_they_are_read_or_not() {
    let dir = Dir::new();
    let house = house(&dir, "require_token = true");
    let (ada, admin) = (bearer(&dir, "ada", Role::Viewer), bearer(&dir, "root", Role::Admin));
    let submit = |id: &str, function: &str, input: &str| {
        let body = format!("{{\"function\":\"{function}\",\"id\":\"{id}\",\"input\":{input}}}");
        house.ask("POST", "/api/v1/runs", &[("authorization", &admin)], &body)
    };
    assert_eq!(submit("w", "wait", "null").status, 201);
    let open = |path: &str, accept: &str| {
        let mut line = house.connect();
        let headers = [("authorization", &*ada), ("accept", accept)];
        kit::send(&mut line, "GET", path, &headers, "");
        assert!(kit::read_head(&mut line).starts_with("HTTP/1.1 200"));
        line
    };
    let mut streams = [
        open("/api/v1/events", "text/event-stream"),
        open("/api/v1/runs/w/events", "text/event-stream"),
        open("/api/v1/runs/w/records?follow=true", "text/event-stream"),
        open("/api/v1/runs/w/records?follow=true", "application/x-ndjson"),
    ];
    // A client that reads nothing, so that the stream blocks.
    let mut stuck = open("/api/v1/events?all=true", "text/event-stream");
    for number in 0..20 {
        assert_eq!(submit(&format!("s-{number}"), "steps", "2000").status, 201);
    }
    // The interval between checks of a followed run grows.
    std::thread::sleep(Duration::from_millis(1500));
    Tokens::at(&dir.0).remove("ada").unwrap();
    let begun = Instant::now();
    for line in &mut streams {
        until_closed(line);
        assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    }
    std::thread::sleep(Duration::from_secs(3).saturating_sub(begun.elapsed()));
    assert!(until_closed(&mut stuck) < Duration::from_secs(5));
}

#[test]
fn waiting_for_a_run_ends_when_the_token_is_removed() {
    let dir = Dir::new();
    let house = house(&dir, "require_token = true");
    let (ada, eve) = (bearer(&dir, "ada", Role::Admin), bearer(&dir, "eve", Role::Viewer));
    let body = "{\"function\":\"wait\",\"id\":\"w\",\"input\":null}";
    let ada = [("authorization", &*ada)];
    assert_eq!(house.ask("POST", "/api/v1/runs", &ada, body).status, 201);
    let mut line = house.connect();
    kit::send(&mut line, "GET", "/api/v1/runs/w?wait=60", &[("authorization", &eve)], "");
    // Once the daemon has answered the next request, it has read this one too.
    assert_eq!(house.ask("GET", "/api/v1/runs/w", &ada, "").status, 200);
    Tokens::at(&dir.0).remove("eve").unwrap();
    let message = "{\"name\":\"go\",\"message\":\"secret\"}";
    assert_eq!(house.ask("POST", "/api/v1/runs/w/messages", &ada, message).status, 204);
    let answer = kit::read_answer(&mut line);
    assert_eq!((answer.status, code(&answer)), (401, "TFY0171".into()), "{answer:?}");
}

#[test]
fn what_is_wrong_with_files_is_told_without_where_they_are() {
    let dir = Dir::new();
    let house = house(&dir, "require_token = true");
    let ada = bearer(&dir, "ada", Role::Admin);
    write(&dir.0, "tokens.json", "[{}]");
    let answer = house.ask("GET", "/api/v1/runs", &[("authorization", &ada)], "");
    assert_eq!((answer.status, code(&answer)), (503, "TFY0175".into()));
    assert!(answer.body.contains("tokens.json"), "{answer:?}");
    assert!(!answer.body.contains(dir.0.parent().unwrap().to_str().unwrap()), "{answer:?}");
}

#[test]
fn nobody_else_on_the_machine_can_read_the_log() {
    fn check(path: &Path, seen: &mut Vec<PathBuf>) {
        let metadata = std::fs::symlink_metadata(path).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o077, 0, "{}", path.display());
        seen.push(path.into());
        if metadata.is_dir() {
            std::fs::read_dir(path).unwrap().for_each(|one| check(&one.unwrap().path(), seen));
        }
    }
    let dir = Dir::new();
    let house = House::open(&dir);
    assert_eq!(house.submit("echo", "e", &format!("\"{}\"", "x".repeat(100_000))).status, 201);
    house.wait_for("e", "completed");
    let mut seen = Vec::new();
    check(&dir.0, &mut seen);
    assert!(seen.len() > 6, "{seen:?}");
    // Existing files keep their permissions.
    drop(house);
    std::fs::set_permissions(&dir.0, std::fs::Permissions::from_mode(0o750)).unwrap();
    let house = House::open(&dir);
    drop(house);
    assert_eq!(std::fs::metadata(&dir.0).unwrap().permissions().mode() & 0o777, 0o750);
}

#[test]
fn what_is_changed_is_written_down_with_who_did_it() {
    let dir = Dir::new();
    let house = house(&dir, "require_token = true");
    let (ada, eve) = (bearer(&dir, "ada", Role::Operator), bearer(&dir, "eve", Role::Viewer));
    let as_ada = [("authorization", ada.as_str())];
    let body = "{\"function\":\"wait\",\"id\":\"w\",\"input\":null}";
    assert_eq!(house.ask("POST", "/api/v1/runs", &as_ada, body).status, 201);
    let secret = "{\"name\":\"go\",\"message\":\"hush-hush\"}";
    assert_eq!(house.ask("POST", "/api/v1/runs/w/messages", &as_ada, secret).status / 100, 2);
    assert_eq!(house.ask("GET", "/api/v1/runs", &as_ada, "").status, 200);
    let as_eve = [("authorization", eve.as_str())];
    assert_eq!(house.ask("POST", "/api/v1/runs/w/cancel", &as_eve, "").status, 403);
    assert_eq!(house.ask("POST", "/api/v1/runs/none/cancel", &as_ada, "").status, 404);
    // Changes through the socket are audited too.
    let mut control = Control::open(&dir.0).unwrap();
    let echo = control.submit("echo", "by-socket", &1).unwrap();
    control.status().unwrap();
    control.cancel(echo).unwrap_err();
    let lines = audited(&dir.0);
    let user = lines[4].0.clone();
    let expected = [
        ("ada", "submit", "ok"),
        ("ada", "send", "ok"),
        ("eve", "cancel", "TFY0173"),
        ("ada", "cancel", "TFY0041"),
        (&*user, "submit", "ok"),
        (&*user, "cancel", "TFY0042"),
    ];
    let seen: Vec<(&str, &str, &str)> =
        lines.iter().map(|(who, did, _, outcome)| (&**who, &**did, &**outcome)).collect();
    assert_eq!(seen, expected);
    let to: Vec<&str> = lines.iter().map(|(_, _, to, _)| &**to).collect();
    assert_eq!(to, ["w", "w", "w", "none", "by-socket", &echo.to_string()]);
    let text = std::fs::read_to_string(dir.0.join(AUDIT)).unwrap();
    assert!(!text.contains("hush-hush") && !text.contains(&ada["Bearer ".len()..]));
}

#[test]
fn what_cannot_be_written_down_is_not_done() {
    let dir = Dir::new();
    let house = House::open(&dir);
    std::fs::rename(dir.0.join(AUDIT), dir.0.join("moved")).unwrap();
    std::fs::create_dir(dir.0.join(AUDIT)).unwrap();
    let refused = house.submit("echo", "e", "1");
    assert_eq!((refused.status, code(&refused)), (503, "TFY0179".into()));
    Control::open(&dir.0).unwrap().submit("echo", "e", &1).unwrap_err();
    assert_eq!(house.get("/api/v1/runs").json()["total"], 0);
    std::fs::remove_dir(dir.0.join(AUDIT)).unwrap();
    assert_eq!(house.submit("echo", "e", "1").status, 201);
    assert_eq!(audited(&dir.0).len(), 1);
}

/// A certificate authority.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Authority { issuer: Issuer::new(params, key), pem }
    }

    /// Creates a certificate and its key.
    fn signs(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".into()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }
}

/// Sends a request over TLS, and returns the status and the body; an error if there is no answer.
fn ask_tls(
    house: &House,
    authority: &Authority,
    own: Option<&(String, String)>,
    authorization: Option<&str>,
) -> std::io::Result<(u16, String)> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match own {
        None => builder.with_no_client_auth(),
        Some((pem, key)) => {
            let chain = vec![CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()];
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    };
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut line = StreamOwned::new(connection, house.connect());
    let token = authorization.map_or(String::new(), |it| format!("authorization: {it}\r\n"));
    let request =
        format!("GET /api/v1/runs HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{token}\r\n");
    line.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    let read = line.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    if answer.is_empty() {
        read?;
    }
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| std::io::Error::other("no answer"))?;
    Ok((status, answer))
}

fn write(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn over_tls_a_certificate_is_asked_for_and_says_who_it_is() {
    let (dir, server, clients) = (Dir::new(), Authority::new(), Authority::new());
    std::fs::create_dir_all(&dir.0).unwrap();
    let (certificate, key) = server.signs("tiffany");
    write(&dir.0, "server.pem", &certificate);
    write(&dir.0, "server.key", &key);
    write(&dir.0, "clients.pem", &clients.pem);
    let house = house(
        &dir,
        "require_token = true\n[tls]\ncertificate = 'server.pem'\nkey = 'server.key'\n\
         clients = 'clients.pem'\n[tls.roles]\nprobe = 'viewer'",
    );
    let ada = bearer(&dir, "ada", Role::Viewer);
    let (probe, other) = (clients.signs("probe"), clients.signs("other"));
    let stranger = Authority::new().signs("probe");
    let ask = |own, token| ask_tls(&house, &server, own, token);
    assert_eq!(ask(Some(&probe), None).unwrap().0, 200);
    let (status, body) = ask(Some(&other), None).unwrap();
    assert!(status == 401 && body.contains("TFY0170"), "{body}");
    assert_eq!(ask(Some(&other), Some(&ada)).unwrap().0, 200);
    assert_eq!(ask(Some(&probe), Some("Bearer tfy_wrong")).unwrap().0, 401);
    ask(None, Some(&ada)).unwrap_err();
    ask(Some(&stranger), Some(&ada)).unwrap_err();
    // A client that doesn't speak TLS gets no answer, and blocks no other.
    let mut plain = house.connect();
    plain.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    plain.set_read_timeout(Some(LIMIT)).unwrap();
    let mut answer = Vec::new();
    drop(plain.read_to_end(&mut answer));
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    assert_eq!(ask(Some(&probe), None).unwrap().0, 200);
}
