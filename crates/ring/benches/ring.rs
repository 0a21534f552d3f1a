//! (measurements to come)
fn main() {}
