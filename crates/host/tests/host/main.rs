//! Hosts in a simulated network: streams over each transport in virtual time.

mod advice;
mod bursts;
mod cuts;
mod datagrams;
mod encoder;
mod film;
mod late;
mod layers;
mod programs;
mod rates;
mod repair;
mod streams;
mod support;
mod timelines;
