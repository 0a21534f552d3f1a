//! Tests of both ends of the Ack Vector.
