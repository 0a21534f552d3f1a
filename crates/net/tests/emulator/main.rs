//! Tests that use the system: captures read by tshark, the relay over loopback, the router between namespaces.

mod capture;
mod relay;
mod router;
mod tools;
#[path = "../tshark/mod.rs"]
mod tshark;
