//! Identities as text, as people know them, for serde's `with`.

/// Several identities as texts.
pub mod texts {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use tiffany_kernel::Uuid;

    #[derive(Serialize, Deserialize)]
    struct Text(#[serde(with = "super::text")] Uuid);

    /// Writes the text.
    pub fn serialize<S: Serializer>(uuids: &[Uuid], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(uuids.iter().map(|uuid| Text(*uuid)))
    }

    /// Reads the text.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Uuid>, D::Error> {
        let texts = Vec::<Text>::deserialize(from)?;
        Ok(texts.into_iter().map(|Text(uuid)| uuid).collect())
    }
}

/// Identities as text, as people know them.
pub mod text {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};
    use tiffany_kernel::Uuid;

    /// Writes the text.
    pub fn serialize<S: Serializer>(uuid: &Uuid, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(uuid)
    }

    /// Reads the text.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Uuid, D::Error> {
        let text = String::deserialize(from)?;
        Uuid::parse(&text).ok_or_else(|| D::Error::custom(format!("`{text}` is not a UUID")))
    }
}

/// An identity that may be absent.
pub mod maybe_text {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use tiffany_kernel::Uuid;

    #[derive(Serialize, Deserialize)]
    struct Text(#[serde(with = "super::text")] Uuid);

    /// Writes the text.
    pub fn serialize<S: Serializer>(uuid: &Option<Uuid>, to: S) -> Result<S::Ok, S::Error> {
        uuid.map(Text).serialize(to)
    }

    /// Reads the text.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Uuid>, D::Error> {
        Ok(Option::<Text>::deserialize(from)?.map(|Text(uuid)| uuid))
    }
}
