//! Serializes UUIDs as text, for serde's `with`.

/// A list of UUIDs as texts.
pub mod texts {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use tiffany_kernel::Uuid;

    #[derive(Serialize, Deserialize)]
    struct Text(#[serde(with = "super::text")] Uuid);

    /// Serializes the texts.
    pub fn serialize<S: Serializer>(uuids: &[Uuid], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(uuids.iter().map(|uuid| Text(*uuid)))
    }

    /// Deserializes the texts.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Uuid>, D::Error> {
        let texts = Vec::<Text>::deserialize(from)?;
        Ok(texts.into_iter().map(|Text(uuid)| uuid).collect())
    }
}

/// A UUID as text.
pub mod text {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};
    use tiffany_kernel::Uuid;

    /// Serializes the text.
    pub fn serialize<S: Serializer>(uuid: &Uuid, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(uuid)
    }

    /// Deserializes the text.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Uuid, D::Error> {
        let text = String::deserialize(from)?;
        Uuid::parse(&text).ok_or_else(|| D::Error::custom(format!("`{text}` is not a UUID")))
    }
}

/// A UUID that may be absent, as text.
pub mod maybe_text {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use tiffany_kernel::Uuid;

    #[derive(Serialize, Deserialize)]
    struct Text(#[serde(with = "super::text")] Uuid);

    /// Serializes the text, or `null`.
    pub fn serialize<S: Serializer>(uuid: &Option<Uuid>, to: S) -> Result<S::Ok, S::Error> {
        uuid.map(Text).serialize(to)
    }

    /// Deserializes the text, or `null`.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Uuid>, D::Error> {
        Ok(Option::<Text>::deserialize(from)?.map(|Text(uuid)| uuid))
    }
}
