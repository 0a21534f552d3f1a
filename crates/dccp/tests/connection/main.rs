//! Integration tests of DCCP connections, driven in virtual time.

mod ccids;
mod endpoint;
mod hostile;
mod link;
mod moved;
mod pair;
mod parity;
mod rates;
mod reception;
mod repeats;
mod script;
mod source;
mod timeline;
mod transfer;
mod world;
