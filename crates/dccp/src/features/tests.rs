//! Tests of feature negotiation.
