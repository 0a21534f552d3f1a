//! Properties of the wire: what is written is read back, whatever the values, and what is read never surprises.

mod ack_vector;
mod features;
mod options;
mod packet;
