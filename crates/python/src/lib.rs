//! Tiffany for Python: the module `tiffany._core`. The package around it is in `python/tiffany`; what a Rust extension may use of it is
//! [`Program`].

mod awaiter;
mod call;
mod calls;
mod codec;
mod driver;
mod errors;
mod handler;
mod handles;
mod json;
mod line;
mod names;
mod net;
mod objects;
mod pending;
mod program;
mod runtime;
mod session;
mod settings;
mod spawn;
mod stack;
mod thread;
mod value;

pub use program::Program;
use pyo3::prelude::*;

/// What `tiffany` is made of. Programs import `tiffany`.
#[pymodule(name = "_core")]
fn core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    calls::add(module)?;
    codec::register(module)?;
    handles::add(module)?;
    objects::add(module)?;
    handler::add(module)?;
    net::add(module)?;
    module.add_class::<Program>()?;
    module.add_class::<settings::Lazy>()?;
    module.add_class::<runtime::Runtime>()?;
    Ok(())
}
