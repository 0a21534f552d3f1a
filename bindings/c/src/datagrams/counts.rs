//! Counters of a stream, in C's layout.

/// `struct utl_counts`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct UtlCounts {
    /// Datagrams that arrived.
    pub acked: u64,
    /// Datagrams that were sent and did not arrive, as far as known.
    pub lost: u64,
    /// Datagrams that were never sent.
    pub dropped: u64,
    /// Datagrams without a fate yet.
    pub pending: u64,
    /// Lost or dropped datagrams that were replaced in the kernel's send queue.
    pub replaced: u64,
}
