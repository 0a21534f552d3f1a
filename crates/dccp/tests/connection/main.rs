//! Connections as their drivers and their peers see them.

mod link;
mod pair;
mod source;
mod transfer;
