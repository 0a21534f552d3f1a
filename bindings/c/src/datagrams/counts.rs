//! What became of a stream's datagrams, as C sees it.

/// `struct utl_counts`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct UtlCounts {
    /// Datagrams that arrived.
    pub acked: u64,
    /// That left, and did not arrive as far as is known.
    pub lost: u64,
    /// That never left.
    pub dropped: u64,
    /// That have none of these fates yet.
    pub pending: u64,
    /// Of the lost and dropped: those that the kernel had already, and that something else took the place of.
    pub replaced: u64,
}
