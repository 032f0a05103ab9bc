//! Serializes timestamps as the log does: RFC 3339 in UTC.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};
use tiffany_kernel::Time;

use tiffany_log::Stamp;

/// Serializes a timestamp.
pub(crate) fn serialize<S: Serializer>(time: &Time, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(Stamp::from_unix_nanos(time.as_nanos()).as_str())
}

/// Deserializes a timestamp.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Time, D::Error> {
    let text = String::deserialize(from)?;
    let stamp =
        Stamp::parse(&text).ok_or_else(|| D::Error::custom(format!("`{text}` is not a moment")))?;
    Ok(Time::from_nanos(stamp.unix_nanos()))
}

/// The same format for timestamps that may be absent.
pub(crate) mod maybe {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use tiffany_kernel::Time;

    #[derive(Serialize, Deserialize)]
    struct Moment(#[serde(with = "super")] Time);

    /// Serializes a timestamp, or `null`.
    pub(crate) fn serialize<S: Serializer>(time: &Option<Time>, to: S) -> Result<S::Ok, S::Error> {
        time.map(Moment).serialize(to)
    }

    /// Deserializes a timestamp, or `null`.
    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Time>, D::Error> {
        Ok(Option::<Moment>::deserialize(from)?.map(|Moment(time)| time))
    }
}
