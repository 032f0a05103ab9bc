//! Replies that are JSON, converted to the type of the call.

use serde::de::DeserializeOwned;
use tiffany_kernel::{Reply, TaskError, Value};

use crate::calls::call::{Decode, FromReply, typed};
use tiffany_records::value::{Json, decode};

/// The reply is JSON, converted to the wanted type.
pub struct Written;

impl<R: DeserializeOwned + 'static> Decode<R> for Written {
    fn decode(reply: Reply) -> Result<R, TaskError> {
        let value = match reply {
            Reply::Message(message) => message.value,
            reply => Value::from_reply(reply)?,
        };
        match value.borrow::<Json>() {
            Some(json) => decode(&json.0),
            // A handler or a test answered with the value itself.
            None => typed(value),
        }
    }
}
