//! Integration tests of DBAT: arbitrary events, and a closed loop with its source over a packet ring.

mod closed_loop;
mod properties;
