//! Sockets, for ephemeral runs: `listen` and `connect` return calls whose answers are listeners and
//! streams, and the methods of these return calls too.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyEOFError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyTuple};
use rustix::net::Shutdown;
use tiffany::TaskError;
use tiffany::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use crate::calls::call::{Op, Perform, SystemCall};
use crate::calls::pending::Pending;
use crate::process::thread::OneThread;
use crate::values::errors::{Raise, TiffanyError};
use crate::values::line::Line;
use crate::values::{argument, errors};

/// A call with this name that is performed by a future.
struct Doing<F>(&'static str, F);

impl<F> Perform for Doing<F>
where
    F: Fn(Python<'_>) -> PyResult<Pending> + Send + Sync,
{
    fn name(&self, _py: Python<'_>) -> String {
        self.0.into()
    }

    fn start(
        &self,
        call: &Bound<'_, SystemCall>,
        _at: &dyn Fn() -> Option<Line>,
    ) -> PyResult<Pending> {
        let py = call.py();
        if tiffany::binding::is_durable() {
            return Err(TiffanyError::NotDurable.err(py, "a durable task used a socket"));
        }
        (self.1)(py)
    }
}

fn call<F>(name: &'static str, start: F) -> SystemCall
where
    F: Fn(Python<'_>) -> PyResult<Pending> + Send + Sync + 'static,
{
    SystemCall::of(Op::Other(Box::new(Doing(name, start))))
}

fn pending(future: impl Future<Output = PyResult<Py<PyAny>>> + 'static) -> PyResult<Pending> {
    Ok(Pending::Future(Box::pin(future)))
}

/// Converts an I/O error to an `OSError`, or to the task's own error if it contains one.
#[cold]
fn raised(error: io::Error) -> PyErr {
    Python::attach(|py| {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<TaskError>());
        match inner {
            Some(inner) => errors::to_python(py, inner),
            None => error.into(),
        }
    })
}

enum Listening {
    Tcp(TcpListener),
    Unix(UnixListener, String),
}

enum Connection {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Calls a method of either kind of connection.
macro_rules! either {
    ($io:expr, $stream:ident => $do:expr) => {
        match $io {
            Connection::Tcp($stream) => $do,
            Connection::Unix($stream) => $do,
        }
    };
}

/// Accepts connections: `accept` returns the call, and `async for` accepts one connection after the
/// other.
#[pyclass(frozen, module = "tiffany.net")]
pub(crate) struct Listener {
    inner: OneThread<RefCell<Option<Rc<Listening>>>>,
}

impl Listener {
    fn object(listening: Listening) -> PyResult<Py<PyAny>> {
        let inner = OneThread::new(RefCell::new(Some(Rc::new(listening))));
        Python::attach(|py| Listener { inner }.into_py_any(py))
    }

    fn get(&self, py: Python<'_>) -> PyResult<Rc<Listening>> {
        let listening = self.inner.get(py, "listener")?.borrow().clone();
        listening.ok_or_else(|| TiffanyError::DescriptorClosed.err(py, "the listener is closed"))
    }
}

#[pymethods]
impl Listener {
    /// Returns the call that waits for the next connection: `(stream, address)`.
    fn accept(slf: Py<Self>) -> SystemCall {
        call("accept", move |py| {
            let listening = slf.get().get(py)?;
            pending(async move {
                let (connection, address) = match &*listening {
                    Listening::Tcp(listener) => {
                        let (stream, address) = listener.accept().await.map_err(raised)?;
                        (Connection::Tcp(stream), Some(address))
                    }
                    Listening::Unix(listener, _) => {
                        (Connection::Unix(listener.accept().await.map_err(raised)?), None)
                    }
                };
                Python::attach(|py| {
                    let stream = Stream::object(py, connection)?;
                    let address = match address {
                        Some(address) => {
                            (address.ip().to_string(), address.port()).into_py_any(py)?
                        }
                        None => "".into_py_any(py)?,
                    };
                    Ok(PyTuple::new(py, [stream, address])?.into_any().unbind())
                })
            })
        })
    }

    /// The address it listens on: `(host, port)`, or a path.
    #[getter]
    fn address(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match &*self.get(py)? {
            Listening::Tcp(listener) => {
                let address = listener.local_addr()?;
                (address.ip().to_string(), address.port()).into_py_any(py)
            }
            Listening::Unix(_, path) => path.into_py_any(py),
        }
    }

    /// Stops listening. Tasks that wait for a connection get an `OSError`.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if let Some(listening) = self.inner.get(py, "listener")?.take()
            && Rc::strong_count(&listening) > 1
        {
            // A task may be waiting for a connection and has to be woken.
            let _ = match &*listening {
                Listening::Tcp(listener) => rustix::net::shutdown(listener, Shutdown::Both),
                Listening::Unix(listener, _) => rustix::net::shutdown(listener, Shutdown::Both),
            };
        }
        Ok(())
    }

    fn __aiter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __anext__(slf: Py<Self>) -> SystemCall {
        Listener::accept(slf)
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(_exception.py())
    }
}

/// A connection that reads and writes bytes.
#[pyclass(frozen, module = "tiffany.net")]
pub(crate) struct Stream {
    inner: OneThread<RefCell<Option<Rc<Open>>>>,
}

struct Open {
    io: Connection,
    /// Bytes that were read beyond the requested line or number of bytes.
    ahead: RefCell<Vec<u8>>,
}

impl Open {
    /// Reads available data up to a limit; nothing at the end of the stream.
    async fn read(&self, most: usize) -> PyResult<Py<PyAny>> {
        let ahead = std::mem::take(&mut *self.ahead.borrow_mut());
        if !ahead.is_empty() {
            let count = most.min(ahead.len());
            self.ahead.borrow_mut().extend_from_slice(&ahead[count..]);
            return Ok(bytes(&ahead[..count]));
        }
        either!(&self.io, stream => stream.read_map(most, bytes).await).map_err(raised)
    }

    /// Reads until `enough` returns a number of bytes. Returns `None` if the stream ends before.
    async fn read_until(
        &self,
        enough: impl Fn(&[u8]) -> Option<usize>,
    ) -> PyResult<Option<Vec<u8>>> {
        let mut all = std::mem::take(&mut *self.ahead.borrow_mut());
        loop {
            if let Some(count) = enough(&all) {
                *self.ahead.borrow_mut() = all.split_off(count);
                return Ok(Some(all));
            }
            // Kept for the next read, in case this one is cancelled.
            *self.ahead.borrow_mut() = all;
            let more = |part: &[u8]| {
                self.ahead.borrow_mut().extend_from_slice(part);
                part.len()
            };
            let count = either!(&self.io, stream => stream.read_map(usize::MAX, more).await);
            if count.map_err(raised)? == 0 {
                return Ok(None);
            }
            all = std::mem::take(&mut *self.ahead.borrow_mut());
        }
    }
}

fn bytes(part: &[u8]) -> Py<PyAny> {
    Python::attach(|py| PyBytes::new(py, part).into_any().unbind())
}

impl Stream {
    fn object(py: Python<'_>, io: Connection) -> PyResult<Py<PyAny>> {
        let open = Rc::new(Open { io, ahead: RefCell::default() });
        Stream { inner: OneThread::new(RefCell::new(Some(open))) }.into_py_any(py)
    }

    fn get(&self, py: Python<'_>) -> PyResult<Rc<Open>> {
        let open = self.inner.get(py, "stream")?.borrow().clone();
        open.ok_or_else(|| TiffanyError::DescriptorClosed.err(py, "the stream is closed"))
    }
}

#[pymethods]
impl Stream {
    /// Returns the call that reads available data, at most `most` bytes, waiting for some. `b""` is
    /// the end of the stream.
    #[pyo3(signature = (most = 65536))]
    fn read(slf: Py<Self>, #[pyo3(from_py_with = argument::most)] most: usize) -> SystemCall {
        call("read", move |py| {
            let open = slf.get().get(py)?;
            pending(async move { open.read(most).await })
        })
    }

    /// Returns the call that reads exactly this many bytes. Raises `EOFError` if the stream ends
    /// before.
    fn read_exactly(
        slf: Py<Self>,
        #[pyo3(from_py_with = argument::count)] count: usize,
    ) -> SystemCall {
        call("read_exactly", move |py| {
            let open = slf.get().get(py)?;
            pending(async move {
                let enough = |all: &[u8]| (all.len() >= count).then_some(count);
                match open.read_until(enough).await? {
                    Some(all) => Ok(bytes(&all)),
                    None => {
                        let had = open.ahead.borrow().len();
                        let message = format!("the stream ended after {had} of {count} bytes");
                        Err(PyEOFError::new_err(message))
                    }
                }
            })
        })
    }

    /// Returns the call that reads up to and including the next newline. `b""` is the end of the
    /// stream; the last line may have no newline.
    fn read_line(slf: Py<Self>) -> SystemCall {
        call("read_line", move |py| {
            let open = slf.get().get(py)?;
            pending(async move {
                let enough =
                    |all: &[u8]| all.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
                match open.read_until(enough).await? {
                    Some(line) => Ok(bytes(&line)),
                    None => Ok(bytes(&std::mem::take(&mut *open.ahead.borrow_mut()))),
                }
            })
        })
    }

    /// Returns the call that writes all of the data.
    fn write_all(slf: Py<Self>, data: Bound<'_, PyAny>) -> PyResult<SystemCall> {
        let data = match data.extract::<PyBackedBytes>() {
            Ok(data) => data,
            Err(_) if data.is_instance_of::<pyo3::types::PyString>() => {
                let message = "a stream takes bytes, not text; say `text.encode()`";
                return Err(TiffanyError::BadArgument.err(data.py(), message));
            }
            // Anything that `bytes` accepts, such as a memoryview or an array.
            Err(_) => data.py().get_type::<PyBytes>().call1((&data,))?.extract()?,
        };
        let data = std::sync::Arc::new(data);
        Ok(call("write_all", move |py| {
            let (open, data) = (slf.get().get(py)?, std::sync::Arc::clone(&data));
            pending(async move {
                either!(&open.io, stream => stream.write_all(&data).await).map_err(raised)?;
                Ok(Python::attach(|py| py.None()))
            })
        }))
    }

    /// Shuts down the writing side: the other side sees the end of the stream.
    fn end_writing(&self, py: Python<'_>) -> PyResult<()> {
        either!(&self.get(py)?.io, stream => stream.shutdown(std::net::Shutdown::Write))?;
        Ok(())
    }

    /// The address of the other side: `(host, port)`; `None` for a Unix socket.
    #[getter]
    fn peer(&self, py: Python<'_>) -> PyResult<Option<(String, u16)>> {
        match &self.get(py)?.io {
            Connection::Tcp(stream) => {
                let address = stream.peer_addr()?;
                Ok(Some((address.ip().to_string(), address.port())))
            }
            Connection::Unix(_) => Ok(None),
        }
    }

    /// Sends small pieces immediately instead of collecting them.
    fn set_nodelay(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = argument::on)] on: bool,
    ) -> PyResult<()> {
        if let Connection::Tcp(stream) = &self.get(py)?.io {
            stream.set_nodelay(on)?;
        }
        Ok(())
    }

    /// Closes the connection. Tasks that wait for data get the end of the stream.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if let Some(open) = self.inner.get(py, "stream")?.take()
            && Rc::strong_count(&open) > 1
        {
            // A task may be waiting for data and has to be woken.
            let _ = either!(&open.io, stream => rustix::net::shutdown(stream, Shutdown::Both));
        }
        Ok(())
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(_exception.py())
    }
}

/// Returns the call that listens on a host and port (0: any free one); its answer is a `Listener`.
#[pyfunction]
#[pyo3(signature = (host = "127.0.0.1".to_string(), port = 0))]
fn listen(
    #[pyo3(from_py_with = argument::host)] host: String,
    #[pyo3(from_py_with = argument::port)] port: u16,
) -> SystemCall {
    call("listen", move |_| {
        let host = host.clone();
        pending(async move {
            let listener = TcpListener::bind((host.as_str(), port)).await.map_err(raised)?;
            Listener::object(Listening::Tcp(listener))
        })
    })
}

/// Returns the call that listens on a Unix socket.
#[pyfunction]
fn listen_unix(#[pyo3(from_py_with = argument::path)] path: String) -> SystemCall {
    call("listen_unix", move |_| {
        let path = path.clone();
        pending(async move {
            let listener = UnixListener::bind(&path).map_err(raised)?;
            Listener::object(Listening::Unix(listener, path))
        })
    })
}

/// Returns the call that connects to a host and port; its answer is a `Stream`.
#[pyfunction]
fn connect(
    #[pyo3(from_py_with = argument::host)] host: String,
    #[pyo3(from_py_with = argument::port)] port: u16,
) -> SystemCall {
    call("connect", move |_| {
        let host = host.clone();
        pending(async move {
            let stream = TcpStream::connect((host.as_str(), port)).await.map_err(raised)?;
            Python::attach(|py| Stream::object(py, Connection::Tcp(stream)))
        })
    })
}

/// Returns the call that connects to a Unix socket.
#[pyfunction]
fn connect_unix(#[pyo3(from_py_with = argument::path)] path: String) -> SystemCall {
    call("connect_unix", move |_| {
        let path = path.clone();
        pending(async move {
            let stream = UnixStream::connect(&path).await.map_err(raised)?;
            Python::attach(|py| Stream::object(py, Connection::Unix(stream)))
        })
    })
}

/// Adds these classes and functions to the module `tiffany._core._net`.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let net = PyModule::new(module.py(), "_net")?;
    net.add_class::<Listener>()?;
    net.add_class::<Stream>()?;
    net.add_function(wrap_pyfunction!(listen, &net)?)?;
    net.add_function(wrap_pyfunction!(listen_unix, &net)?)?;
    net.add_function(wrap_pyfunction!(connect, &net)?)?;
    net.add_function(wrap_pyfunction!(connect_unix, &net)?)?;
    module.add_submodule(&net)
}
