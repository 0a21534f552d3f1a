//! Scripted timelines: the state diagram of RFC 4340 §8.4, and each step of §8.5 that changes state.

mod closing;
mod data;
mod handshake;
mod rates;
mod validity;
