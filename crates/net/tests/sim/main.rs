//! The simulated network, seen from outside.

mod capture;
mod conservation;
mod determinism;
mod order;
mod recorders;
mod routes;
mod timing;
#[path = "../tshark/mod.rs"]
mod tshark;
mod world;
