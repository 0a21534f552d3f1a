//! Page size, the alignment of packet buffers.

/// Alignment of packet buffers: a page, as required by `O_DIRECT`. (A few words under the model checker.)
pub const PAGE: usize = if cfg!(loom) { 16 } else { 4096 };
