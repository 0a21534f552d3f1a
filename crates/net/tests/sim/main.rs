//! Integration tests of the network simulator.

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
