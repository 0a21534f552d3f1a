//! Feature negotiation: agreement of both ends on the attributes of a connection (RFC 4340 §6).

mod ends;
mod error;
mod negotiation;
mod number;
mod table;

pub use ends::{Location, Role};
pub use error::{NegotiationError, ProposeError};
pub use number::{Feature, Rule};
pub(crate) use number::{TAKES_PARITY, TAKES_REPEATS};
pub use table::{Agreement, Features};

#[cfg(test)]
mod tests;
