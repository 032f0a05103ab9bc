//! What the design says of durable runs where it speaks of semantics: each test quotes the sentence it checks.
//! Expected results come from the design, never from the code.

mod durable;
