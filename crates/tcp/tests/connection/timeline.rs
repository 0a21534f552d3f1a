//! Rules of the RFCs, one scripted timeline for each.

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
