//! An item to be forwarded: an event, or a number of lost events. Its JSON is the event's own
//! object, with the node and the epoch of its hub.

use std::sync::Arc;

use serde_json::{Value, json};
use tiffany::pal::{Activity, Told};

/// The source of the events.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    pub(super) node: String,
    pub(super) epoch: u64,
}

/// An item to be forwarded.
#[derive(Clone, Debug)]
pub(super) enum Item {
    Event(Arc<Activity>),
    /// The number of events that were lost before the next one.
    Lost(u64),
}

impl From<Told> for Item {
    fn from(told: Told) -> Item {
        match told {
            Told::Event(event) => Item::Event(event),
            Told::Lost { count } => Item::Lost(count),
        }
    }
}

impl Item {
    /// Returns the run of the event.
    pub(super) fn run(&self) -> Option<String> {
        match self {
            Item::Event(event) => Some(event.task_id.to_string()),
            Item::Lost(_) => None,
        }
    }

    /// Returns the stage of the event.
    pub(super) fn stage(&self) -> &'static str {
        match self {
            Item::Event(event) => event.stage.name(),
            Item::Lost(_) => "Lost",
        }
    }

    /// Returns the event's number in its hub.
    pub(super) fn seq(&self) -> Option<u64> {
        match self {
            Item::Event(event) => Some(event.seq),
            Item::Lost(_) => None,
        }
    }

    pub(super) fn json(&self, origin: &Origin) -> String {
        let mut object = match self {
            Item::Event(event) => serde_json::to_value(&**event).unwrap_or_default(),
            Item::Lost(count) => {
                let message = format!("{count} events before the next one were lost");
                json!({ "stage": self.stage(), "message": message, "count": count })
            }
        };
        if let Value::Object(fields) = &mut object {
            fields.insert("node".into(), origin.node.as_str().into());
            // As text: many JSON parsers cannot represent 64-bit numbers.
            fields.insert("epoch".into(), format!("{:016x}", origin.epoch).into());
        }
        object.to_string()
    }
}
