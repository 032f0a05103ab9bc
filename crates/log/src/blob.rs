//! Large payloads, stored by content: the name of a blob is the SHA-256 of its bytes, so
//! `sha256sum` can check one.

use sha2::{Digest, Sha256};

use super::json::push_hex;

/// The name of a blob.
///
/// ```
/// # use tiffany_log::BlobHash;
/// let hash = BlobHash::of(b"abc");
/// assert!(hash.to_string().starts_with("ba7816bf"));
/// assert_eq!(BlobHash::parse(&hash.to_string()), Some(hash));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobHash(pub [u8; 32]);

impl BlobHash {
    /// Computes the name of a blob with these bytes.
    pub fn of(bytes: &[u8]) -> BlobHash {
        BlobHash(Sha256::digest(bytes).into())
    }

    /// Parses 64 lower-case hex digits.
    pub fn parse(text: &str) -> Option<BlobHash> {
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return None;
        }
        let mut hash = [0; 32];
        for (byte, pair) in hash.iter_mut().zip(digits.chunks(2)) {
            let digit = |at: usize| match pair[at] {
                digit @ b'0'..=b'9' => Some(digit - b'0'),
                digit @ b'a'..=b'f' => Some(digit - b'a' + 10),
                _ => None,
            };
            *byte = digit(0)? << 4 | digit(1)?;
        }
        Some(BlobHash(hash))
    }

    pub(crate) fn first_bytes(self) -> u64 {
        let (first, _) = self.0.split_first_chunk().expect("it has 32 bytes");
        u64::from_le_bytes(*first)
    }

    pub(crate) fn push_to(&self, out: &mut Vec<u8>) {
        push_hex(out, &self.0);
    }
}

impl std::fmt::Display for BlobHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::fmt::Debug for BlobHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}
