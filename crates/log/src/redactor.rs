//! What takes secrets out of lines before they reach the disk. The log knows neither the rules nor what a field means.

/// Rules for redaction. Each method gives the text to write instead, or `None` if nothing changes.
pub trait Redactor: std::fmt::Debug + Send + Sync {
    /// The fields of a line, which has this beginning.
    fn fields(&self, head: &[u8], fields: &str) -> Option<String>;
    /// A JSON payload that becomes a blob; `before` are the fields in front of it.
    fn payload(&self, before: &str, field: &str, json: &str) -> Option<String>;
    /// Bytes that become a blob.
    fn bytes(&self, bytes: &[u8]) -> Option<Vec<u8>>;
}
