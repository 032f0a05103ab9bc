//! Tiffany for Python: the module `tiffany._core`. The package around it is in `python/tiffany`.

use pyo3::prelude::*;

/// What `tiffany` is made of. Programs import `tiffany`.
#[pymodule(name = "_core")]
mod core {
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
