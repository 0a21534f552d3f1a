//! The rules of the RFCs, one scripted timeline each.

mod bundling;
mod closing;
mod ecn;
mod handshake;
mod newreno;
mod probes;
mod rack;
mod recovery;
mod spurious;
mod timeout;
mod validity;
mod window;
