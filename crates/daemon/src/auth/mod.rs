//! Access control: tokens with roles, client certificates, and checks that pages of other sites
//! don't act for a browser's user. It doesn't know what is requested; each route names the [`Role`]
//! that it requires.

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
