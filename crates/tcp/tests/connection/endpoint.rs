//! Many connections of one host.
