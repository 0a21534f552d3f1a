//! Daemons and their clients, each in a process of its own, and the far end of their packets.

mod client;
pub(super) mod false_feedback;
pub(super) mod feedback_receiver;
pub(super) mod host;
pub(crate) mod member;
pub(super) mod messages;

pub(crate) use client::client;
pub(crate) use messages::{COMMAND, ClientArgs};
