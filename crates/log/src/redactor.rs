//! The interface for removing secrets from lines before they reach the disk. The log knows neither
//! the rules nor the meaning of a field.

/// Rules for redaction. Each method returns the text to write instead, or `None` if nothing
/// changes.
pub trait Redactor: std::fmt::Debug + Send + Sync {
    /// Redacts the fields of a line; `head` is the part of the line before them.
    fn fields(&self, head: &[u8], fields: &str) -> Option<String>;
    /// Redacts a JSON payload that becomes a blob; `before` are the fields before it.
    fn payload(&self, before: &str, field: &str, json: &str) -> Option<String>;
    /// Redacts bytes that become a blob.
    fn bytes(&self, bytes: &[u8]) -> Option<Vec<u8>>;
}
