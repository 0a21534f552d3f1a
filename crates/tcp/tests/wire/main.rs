//! Wire format and reassembly: written segments are parsed back, by us and by others, and the bytes of a stream are
//! delivered once and in order, however they arrive.

#[path = "../tshark/mod.rs"]
mod capture;
mod codec;
mod reassembly;
mod strategy;
mod tshark;
