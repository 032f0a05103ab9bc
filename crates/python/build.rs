//! Links the interpreter's library, which is found where Python has it. Only tests of this crate
//! need it, because they embed an interpreter; the wheel is loaded by one.

fn main() {
    println!("cargo:rerun-if-env-changed=PYO3_BUILD_EXTENSION_MODULE");
    if std::env::var_os("PYO3_BUILD_EXTENSION_MODULE").is_none() {
        pyo3_build_config::add_libpython_rpath_link_args();
    }
}
