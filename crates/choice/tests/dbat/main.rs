//! DBAT under whatever comes, and in a closed loop with its source over a packet ring.

mod closed_loop;
mod properties;
