//! Tests of the options' codec.
