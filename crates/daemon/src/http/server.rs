//! The listening socket and the server's threads. A connection beyond the limit gets an error and
//! is closed; one that sends nothing for too long is closed.

use std::convert::Infallible;
use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::response::IntoResponse;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::io::Errno;
use rustix::net::sockopt::set_tcp_user_timeout;
use tiffany::binding::NotInherited;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

use super::bare::Explained;
use super::connection::Connection;
use super::head;
use super::peers::{Peer, Peers};
use super::problem::Problem;
use super::who_has::who_has;
use crate::api::router;
use crate::app::App;
use crate::error::DaemonError;
use crate::tls::{Tls, name_in};

/// The most headers in one request.
const HEADERS: usize = 100;
/// How long a refused client has to read the reason.
const FAREWELL: Duration = Duration::from_secs(2);
/// How long a connection may take to close when it delays all others.
const SHORT_FAREWELL: Duration = Duration::from_millis(200);
/// Descriptors reserved for telling clients that none is left. The code that uses up all others may
/// take one that was just released.
const SPARES: usize = 8;
/// How many clients at a time are told why they are refused. Further ones are disconnected at once:
/// they exceed the limit of connections, and each uses a descriptor.
const FAREWELLS: usize = 16;
/// How long a stopping server waits for its threads.
const LAST: Duration = Duration::from_secs(2);

/// Binds a listening socket.
pub(crate) fn bind(address: SocketAddr) -> Result<NotInherited<TcpListener>, DaemonError> {
    let failed = |error: std::io::Error| {
        let why = match error.kind() {
            std::io::ErrorKind::AddrInUse => match who_has(address) {
                Some(who) => format!("{who} uses the port"),
                None => "another process uses the port".into(),
            },
            _ => error.to_string(),
        };
        DaemonError::Listen { address, why }
    };
    let listener = NotInherited::open(|| TcpListener::bind(address)).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok(listener)
}

/// The threads of the server.
pub(crate) struct Server {
    threads: tokio::runtime::Runtime,
}

impl Server {
    /// Answers at an address that was taken.
    pub(crate) fn start(
        listener: NotInherited<TcpListener>,
        app: &App,
        router: Router,
        tls: Option<Tls>,
    ) -> Result<Server, DaemonError> {
        let failed = |error: std::io::Error| DaemonError::Start(error.to_string());
        let threads = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("tiffany-http")
            .enable_io()
            .enable_time()
            .build()
            .map_err(failed)?;
        let listener = {
            let _entered = threads.enter();
            listener.map(tokio::net::TcpListener::from_std).map_err(failed)?
        };
        let house = House::new(app, router, tls);
        threads.spawn(accept(listener, Arc::new(house)));
        threads.spawn(sync_audit(app.clone()));
        threads.spawn(watch_tokens(app.clone()));
        Ok(Server { threads })
    }

    /// Returns the handle of the runtime that serves the network.
    pub(crate) fn handle(&self) -> &tokio::runtime::Handle {
        self.threads.handle()
    }

    /// Stops the server. Responses that are being sent get a moment to finish.
    pub(crate) fn stop(self) {
        self.threads.shutdown_timeout(LAST);
    }
}

/// How often the audit file is synced to disk.
const SYNC: Duration = Duration::from_secs(1);

async fn sync_audit(app: App) {
    loop {
        tokio::time::sleep(SYNC).await;
        let audit = Arc::clone(&app.audit);
        if let Ok(Err(error)) = tokio::task::spawn_blocking(move || audit.sync()).await {
            tracing::error!(target: "tiffany", code = error.code(), "{error}");
        }
    }
}

/// How often the file of tokens is checked for changes.
const LOOK_AT_TOKENS: Duration = Duration::from_secs(1);

/// Notifies streams of changed tokens, so that streams whose token was removed end soon.
async fn watch_tokens(app: App) {
    let mut before = app.gate.token_file();
    loop {
        tokio::time::sleep(LOOK_AT_TOKENS).await;
        let now = app.gate.token_file();
        if now != before {
            before = now;
            app.token_changes.send_replace(());
        }
    }
}

/// State that all connections share.
struct House {
    app: App,
    router: Router,
    tls: Option<Arc<Tls>>,
    peers: Arc<Peers>,
    farewells: Semaphore,
}

impl House {
    fn new(app: &App, router: Router, tls: Option<Tls>) -> House {
        House {
            app: app.clone(),
            router,
            tls: tls.map(Arc::new),
            peers: Peers::new(&app.limits),
            farewells: Semaphore::new(FAREWELLS),
        }
    }
}

async fn accept(listener: NotInherited<tokio::net::TcpListener>, house: Arc<House>) {
    let mut spares = Vec::new();
    loop {
        while spares.len() < SPARES
            && let Ok(spare) = File::open("/dev/null")
        {
            spares.push(spare);
        }
        let accepted = tokio::select! {
            accepted = Connection::accept(&listener) => accepted,
            () = house.app.closing() => return,
        };
        match accepted {
            Ok((stream, address)) => {
                // A response is written in one piece, and should be sent at once.
                drop(stream.socket().set_nodelay(true));
                // A client that acknowledges nothing is disconnected, whatever the connection is
                // for.
                let patience = u32::try_from(2 * house.app.limits.ping.as_millis());
                let _ = set_tcp_user_timeout(stream.socket(), patience.unwrap_or(u32::MAX));
                tokio::spawn(connected(stream, address, Arc::clone(&house)));
            }
            Err(error) if lacks_descriptor(&error) && spares.pop().is_some() => {
                if let Ok((stream, _)) = Connection::accept(&listener).await {
                    let problem = Problem::from(DaemonError::NoDescriptor);
                    turn_away(stream, &problem, SHORT_FAREWELL).await;
                }
            }
            // Other connections may close in the meantime.
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// Returns whether the process or the system has run out of descriptors.
fn lacks_descriptor(error: &std::io::Error) -> bool {
    let number = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(number, Some(Errno::MFILE | Errno::NFILE))
}

async fn connected(stream: Connection, address: SocketAddr, house: Arc<House>) {
    let _connected = match house.peers.connect(address.ip()) {
        Ok(connected) => connected,
        Err(error) => match house.farewells.try_acquire() {
            Ok(_place) => return turn_away(stream, &Problem::from(error), FAREWELL).await,
            Err(_) => return,
        },
    };
    match &house.tls {
        None => serve(stream, Peer::new(address, None), &house).await,
        Some(tls) => {
            let hello = TlsAcceptor::from(tls.config()).accept(stream);
            let Ok(Ok(stream)) = tokio::time::timeout(house.app.limits.header_time, hello).await
            else {
                return;
            };
            let certificates = stream.get_ref().1.peer_certificates();
            let certificate = certificates.and_then(|all| name_in(all.first()?));
            serve(stream, Peer::new(address, certificate), &house).await;
        }
    }
}

async fn turn_away(mut stream: Connection, problem: &Problem, patience: Duration) {
    let farewell = async {
        stream.write_all(problem.raw().as_bytes()).await?;
        stream.shutdown().await?;
        // Reads the rest of the request: otherwise the client would see a reset connection instead
        // of the response.
        let mut rest = [0; 1024];
        while stream.read(&mut rest).await? > 0 {}
        std::io::Result::Ok(())
    };
    drop(tokio::time::timeout(patience, farewell).await);
}

/// Serves one request on a stream other than a network connection.
pub(crate) async fn serve_line<S>(stream: S, app: &App)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let house = House::new(app, router(app), None);
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    serve_as(stream, Peer::new(address, None), &house, http1::Builder::new().keep_alive(false))
        .await;
}

async fn serve<S>(stream: S, peer: Peer, house: &House)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    serve_as(stream, peer, house, &mut http1::Builder::new()).await;
}

async fn serve_as<S>(stream: S, peer: Peer, house: &House, as_it_is: &mut http1::Builder)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limits = &house.app.limits;
    let answer = |mut request: hyper::Request<Incoming>| {
        let (peer, router) = (peer.clone(), house.router.clone());
        let asked = house.peers.ask(peer.address.ip());
        async move {
            if let Err(error) = asked.and_then(|()| head::check(&request)) {
                return Ok::<_, Infallible>(Problem::from(error).into_response());
            }
            request.extensions_mut().insert(peer);
            let request = request.map(axum::body::Body::new);
            Ok(match router.oneshot(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            })
        }
    };
    let header_bytes = limits.header_bytes.max(8 << 10);
    let connection = as_it_is
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_time)
        .max_buf_size(header_bytes)
        .max_headers(HEADERS)
        .serve_connection(TokioIo::new(Explained::new(stream, header_bytes)), service_fn(answer))
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let cut = Arc::clone(&peer.cut);
    tokio::select! {
        // The client disconnected, so the error has no recipient.
        ended = connection.as_mut() => drop(ended),
        () = cut.notified() => {}
        () = house.app.closing() => {
            connection.as_mut().graceful_shutdown();
            drop(connection.await);
        }
    }
}
