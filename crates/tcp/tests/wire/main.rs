//! What travels: what is written is read back, whatever the values, by us and by others, and the bytes of a stream
//! come out once and in order, whatever way they came.

#[path = "../tshark/mod.rs"]
mod capture;
mod codec;
mod reassembly;
mod strategy;
mod tshark;
