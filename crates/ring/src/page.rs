//! The unit in which memory is laid out.

/// Alignment of packet buffers: a page, as `O_DIRECT` wants it. (A handful of words under the model checker.)
pub const PAGE: usize = if cfg!(loom) { 16 } else { 4096 };
