//! Integration tests of the ring: against a simple model, across threads and processes, and as a transport's source.
#![cfg(not(loom))]

mod model;
mod processes;
mod settling;
mod shared_zone;
mod source;
mod threads;
mod zone;
mod zone_model;
mod zone_processes;

use timeous_core::{AduMeta, AduSeq};

fn adu(seq: u64) -> AduMeta {
    AduMeta { seq: AduSeq(seq), ..AduMeta::default() }
}

/// Payload that identifies its number: length and every byte depend on it.
fn payload(seq: u64, most: usize) -> Vec<u8> {
    let len = 1 + (seq as usize).wrapping_mul(7919) % most;
    (0..len as u64).map(|at| seq.wrapping_mul(31).wrapping_add(at.wrapping_mul(seq | 1)) as u8).collect()
}
