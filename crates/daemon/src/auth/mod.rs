//! Who may do what: tokens with roles, certificates, and pages of browsers that must not speak for their users. Nothing here knows what is asked for; each
//! route says which [`Role`] it takes.

mod error;
mod gate;
mod role;
mod token;
mod tokens;

pub use error::AuthError;
pub use gate::{By, Gate, Knock, Who};
pub use role::Role;
pub use token::{Kept, Token};
pub use tokens::{TOKENS, Tokens};
