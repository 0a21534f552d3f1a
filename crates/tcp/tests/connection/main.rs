//! Connections on a virtual clock: rules of the RFCs as timelines, transfers over bad links, many at one host.

mod endpoint;
mod hostile;
mod link;
mod pair;
mod script;
mod timeline;
mod transfer;
mod world;
