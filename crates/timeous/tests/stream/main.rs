//! Integration tests of streams over real sockets, both ends in this process.

mod advice;
#[cfg(feature = "tokio")]
mod asynchronous;
mod callers;
mod dialing;
mod endings;
mod examples;
mod fates;
mod in_place;
mod moved;
mod own_choice;
mod policies;
mod protection;
mod refusals;
mod shared;
mod sizes;
mod support;
mod tcp;
