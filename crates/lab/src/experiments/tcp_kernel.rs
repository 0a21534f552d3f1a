//! Our TCP against the kernel's: the same bytes, and as fast as the kernel's against itself.

mod bed;
mod kernel;
mod transfer;

#[cfg(test)]
mod tests;
