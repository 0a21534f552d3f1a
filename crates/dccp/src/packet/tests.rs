//! Tests of the packets' codec.
