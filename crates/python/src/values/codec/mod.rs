//! Encodes Python values as JSON text and back, for the records of durable runs: results of steps,
//! inputs of workflows, messages. A decoded value is equal to the encoded one, and of the same
//! type. It doesn't depend on runs.
//!
//! Values that JSON has are written as they are. Everything else is an object whose first name is a
//! tag: `{"$tuple":[1,2]}`.
//!
//! | file | what it is for |
//! |---|---|
//! | `encode.rs`, `text.rs` | values to text: the loop, the scalars |
//! | `decode.rs`, `reader.rs` | text to values: the loop, the grammar |
//! | `form.rs`, `kind.rs` | the forms with a tag; which class has which |
//! | `stdlib.rs`, `time.rs`, `record.rs`, `enums.rs`, `model.rs`, `exception.rs` | kinds of values, each both ways |
//! | `hook.rs` | types that the user teaches the codec |
//! | `classes.rs` | classes by name |
//! | `error.rs`, `path.rs` | what is wrong, and where |
//! | `module.rs` | what Python sees of it |

mod classes;
mod decode;
mod encode;
mod enums;
mod error;
mod exception;
mod form;
mod hook;
mod kind;
mod model;
mod module;
mod path;
mod reader;
mod record;
mod stdlib;
mod text;
mod time;

pub(crate) use decode::decode;
pub(crate) use encode::encode;
pub(crate) use error::CodecError;
pub(crate) use exception::{Decoded, decode_exception, encode_exception};
pub(crate) use module::register;

/// The greatest depth of a value.
const MAX_LEVELS: usize = 1000;
