//! Connections in virtual time: RFC rules as timelines, transfers over bad links, many connections of one host.

mod endpoint;
mod hostile;
mod link;
mod pair;
mod script;
mod timeline;
mod transfer;
mod world;
