//! Property tests of the wire format: encoding and decoding are inverse, and arbitrary bytes never cause a panic.

mod ack_vector;
mod features;
mod options;
mod packet;
