//! A token: a secret with the name of its owner. Only its hash is stored. This module doesn't
//! access files.

use std::fmt;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::auth::role::Role;

/// The prefix of all tokens, by which people and secret scanners recognize them.
const PREFIX: &str = "tfy_";
/// The alphabet of both parts, five bits per letter. Letters that look alike are left out.
const LETTERS: &[u8; 32] = b"abcdefghijkmnopqrstuvwxyz2345678";
/// The number of letters in the public id.
const NAMING: usize = 8;
/// The number of letters in the secret: 260 bits.
const SECRET: usize = 52;

/// A new token, shown to its owner once. `{:?}` doesn't print it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Creates a token from the system's random numbers.
    pub(super) fn draw() -> std::io::Result<Token> {
        let mut random = [0; NAMING + SECRET];
        let mut filled = 0;
        while filled < random.len() {
            let flags = rustix::rand::GetRandomFlags::empty();
            filled += rustix::rand::getrandom(&mut random[filled..], flags)?;
        }
        let letters = random.map(|byte| LETTERS[usize::from(byte) % LETTERS.len()]);
        let text: String = letters.iter().map(|letter| char::from(*letter)).collect();
        let (naming, secret) = text.split_at(NAMING);
        Ok(Token(format!("{PREFIX}{naming}_{secret}")))
    }

    /// Returns the whole text, to be handed to the owner.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns the public id of the token.
    pub(super) fn id(&self) -> &str {
        id_of(&self.0).unwrap_or_default()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({PREFIX}{}_…)", self.id())
    }
}

/// Returns the public id in a text that has the form of a token.
pub(super) fn id_of(text: &str) -> Option<&str> {
    let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
    let is_of = |part: &str, length| {
        part.len() == length && part.bytes().all(|letter| LETTERS.contains(&letter))
    };
    (is_of(id, NAMING) && is_of(secret, SECRET)).then_some(id)
}

/// The stored form of a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// The public id.
    pub id: String,
    /// The owner's name, as people and the audit file use it.
    pub name: String,
    /// The owner's role.
    pub role: Role,
    /// SHA-256 of the whole token, in hex. The token has as many random bits as the hash, so a slow
    /// hash would add nothing.
    hash: String,
    /// When the token was created, in seconds since 1970.
    pub created: u64,
    /// When the token expires, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
}

impl Kept {
    pub(super) fn new(token: &Token, name: &str, role: Role, expires: Option<u64>) -> Kept {
        Kept {
            id: token.id().into(),
            name: name.into(),
            role,
            hash: hash(token.reveal()),
            created: seconds(SystemTime::now()),
            expires,
        }
    }

    /// Returns whether the text is this token. The time of the comparison doesn't depend on where
    /// they differ.
    pub(super) fn is(&self, text: &str) -> bool {
        hash(text).as_bytes().ct_eq(self.hash.as_bytes()).into()
    }

    /// Returns whether the token has expired.
    pub fn has_expired(&self, now: SystemTime) -> bool {
        self.expires.is_some_and(|end| seconds(now) >= end)
    }
}

pub(super) fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Returns the hash of a token. Unknown tokens are hashed too, so that refusing them takes as long.
pub(super) fn hash(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_shaped_as_one_and_shows_no_secret() {
        let token = Token::draw().unwrap();
        let text = token.reveal();
        assert_eq!(text.len(), PREFIX.len() + NAMING + 1 + SECRET);
        assert_eq!(id_of(text), Some(token.id()));
        assert_ne!(token, Token::draw().unwrap());
        let secret = &text[text.len() - SECRET..];
        assert!(!format!("{token:?}").contains(secret));
        let kept = Kept::new(&token, "ada", Role::Viewer, None);
        assert!(!serde_json::to_string(&kept).unwrap().contains(secret));
        assert!(kept.is(text));
        assert!(!kept.is(Token::draw().unwrap().reveal()));
    }

    #[test]
    fn other_texts_are_no_tokens() {
        let good = Token::draw().unwrap().reveal().to_owned();
        let cases = [
            String::new(),
            "tfy_".into(),
            good[1..].into(),
            format!("{good}a"),
            good[..good.len() - 1].into(),
            good.replace("tfy_", "TFY_"),
            good.replacen('_', "-", 1),
            format!("{}é", &good[..good.len() - 2]),
        ];
        for text in cases {
            assert_eq!(id_of(&text), None, "{text}");
        }
    }

    #[test]
    fn every_letter_is_drawn_alike() {
        assert_eq!(256 % LETTERS.len(), 0);
        let all: std::collections::BTreeSet<&u8> = LETTERS.iter().collect();
        assert_eq!(all.len(), LETTERS.len());
    }
}
