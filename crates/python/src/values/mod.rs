//! Conversion between Python and Rust: values, the codec, errors, arguments, names and lines of
//! code. It doesn't depend on calls, tasks or runtimes.

pub(crate) mod approvals;
pub(crate) mod argument;
pub(crate) mod attributes;
pub(crate) mod codec;
pub(crate) mod coroutine_kind;
pub(crate) mod errors;
pub(crate) mod frames;
pub(crate) mod json;
pub(crate) mod line;
pub(crate) mod names;
pub(crate) mod traceback;
pub(crate) mod value;
