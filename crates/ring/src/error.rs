//! Errors of the ring, by the side that caused them.

use crate::page::PAGE;

/// Values in shared memory that no honest producer writes: a fault of the application, found by the consumer.
///
/// The ring gives out nothing more. Close the connection; other rings are not affected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// `kern_i`, which only the consumer moves, was changed.
    #[error(
        "kern_i is {found} in shared memory and {expected} in truth: the application wrote a word of the transport"
    )]
    KernMoved {
        /// `kern_i` by the consumer's private copy.
        expected: u32,
        /// `kern_i` in shared memory.
        found: u32,
    },
    /// `umod_i` is not between `kern_i` and `user_i`.
    #[error("umod_i is {umod} with kern_i at {kern} and user_i at {user}: it must lie between them")]
    UmodOutside {
        /// `kern_i` of the consumer.
        kern: u64,
        /// `umod_i` in shared memory.
        umod: u64,
        /// Latest `user_i`.
        user: u64,
    },
    /// `user_i` moved backwards.
    #[error("user_i went back from {last} to {found}")]
    UserWentBack {
        /// Latest `user_i`.
        last: u64,
        /// `user_i` in shared memory.
        found: u64,
    },
    /// More packets than the ring holds.
    #[error("user_i is {user} with dev_i at {dev}: a ring of {slots} slots holds one packet less than slots")]
    TooManyPackets {
        /// `dev_i` of the consumer.
        dev: u64,
        /// `user_i` in shared memory.
        user: u64,
        /// Number of slots.
        slots: u32,
    },
    /// A published record was being written, or never was.
    #[error("the record of packet {token} changed while the transport owned it")]
    Torn {
        /// Position of the packet.
        token: u64,
    },
    /// A record has invalid fields.
    #[error("the record of packet {token} cannot be read: its attributes are {attributes:#x}")]
    BadRecord {
        /// Position of the packet.
        token: u64,
        /// The invalid word.
        attributes: u64,
    },
    /// A record names a zone that is not attached to the ring.
    #[error("packet {token} is said to be in zone {zone}, which is not attached to the ring")]
    NoSuchZone {
        /// Position of the packet.
        token: u64,
        /// Number of the zone.
        zone: u8,
    },
    /// A payload is outside of the packet zone, or longer than a buffer.
    #[error("packet {token} is said to be {len} bytes at {offset}, which is not in the packet zone")]
    BadPlace {
        /// Position of the packet.
        token: u64,
        /// Offset in the zone.
        offset: u32,
        /// Length.
        len: u32,
    },
    /// The completion ring's read index is ahead of its write index, or moved backwards.
    #[error("the completion ring was read up to {found}, which is not between {read} and {written}")]
    BadCompletionIndex {
        /// Previous read index.
        read: u64,
        /// Write index.
        written: u64,
        /// Read index in shared memory.
        found: u64,
    },
    /// The packed word changed at every attempt to move `kern_i`.
    #[error("umod_i changed {attempts} times in a row under the transport's hands")]
    Contended {
        /// Number of attempts.
        attempts: u32,
    },
}

/// Values that no honest consumer writes: a fault of the transport, found by the producer. Open another ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// `kern_i` is not between its last value and `umod_i`, or `umod_i` was changed.
    #[error("the transport moved kern_i or umod_i where it must not ({found:#x}): open another ring")]
    Packed {
        /// Value of the packed word.
        found: u64,
    },
    /// `dev_i` is not between its last value and `kern_i`.
    #[error("the transport moved dev_i to {found}, which is not between {last} and {kern}: open another ring")]
    Device {
        /// Previous `dev_i`.
        last: u64,
        /// `dev_i` in shared memory.
        found: u64,
        /// `kern_i`.
        kern: u64,
    },
    /// The completion ring has invalid contents.
    #[error("the transport's completion ring is not readable at {at}: open another ring")]
    Completion {
        /// Number of the completion.
        at: u64,
    },
    /// `kern_i` changed at every attempt to pull back.
    #[error("kern_i changed {attempts} times in a row: open another ring")]
    Contended {
        /// Number of attempts.
        attempts: u32,
    },
}

/// Error of enqueueing an ADU. The ring is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnqueueError {
    /// All but one of the slots hold unsent packets.
    #[error("the ring is full: wait for packets to leave, or withdraw some")]
    Full,
    /// No buffer is free.
    #[error("the packet zone is full: wait for packets to leave, or let go of unused buffers")]
    ZoneFull,
    /// The payload is longer than a buffer.
    #[error(
        "{len} bytes do not fit into a buffer of {buffer_size}: split the ADU, or make the ring with larger buffers"
    )]
    TooLarge {
        /// Length of the payload.
        len: usize,
        /// Buffer size in bytes.
        buffer_size: usize,
    },
    /// The range is outside of the buffer.
    #[error("bytes {start}..{end} are not within the buffer of {buffer_size} bytes")]
    BadRange {
        /// First byte.
        start: usize,
        /// After the last byte.
        end: usize,
        /// Length of the buffer.
        buffer_size: usize,
    },
    /// The buffer belongs to another zone, which the transport cannot reach: it is another process.
    #[error(
        "the buffer belongs to a packet zone that the transport's process cannot read: copy the payload, or make the \
         zone in that process"
    )]
    ForeignBuffer,
    /// The ring was made without buffers of its own.
    #[error("the ring has no buffers of its own: enqueue buffers of a packet zone, or make the ring with buffers")]
    NoZone,
    /// All places for zones are taken by zones of unsent packets.
    #[error("the ring's unsent packets lie in too many packet zones: wait for packets to leave, or use fewer zones")]
    TooManyZones,
    /// There is no packet at this place.
    #[error("place {index} is beyond the {len} packets that were pulled back")]
    NoSuchPlace {
        /// Requested place.
        index: usize,
        /// Number of places.
        len: usize,
    },
    /// The transport has closed the ring.
    #[error("the connection is closed: nothing more is sent from this ring")]
    Closed,
    /// The transport broke the ring.
    #[error(transparent)]
    Broken(#[from] Broken),
}

/// Invalid configuration of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The number of slots is not a power of two from 2 to 2^20.
    #[error("{0} slots: take a power of two from 2 to 2^20")]
    Slots(u32),
    /// The buffer size is not a positive multiple of [`PAGE`].
    #[error("buffers of {0} bytes: take a positive multiple of {PAGE}")]
    BufferSize(u32),
    /// A zone without buffers, or one of more than 4 GiB.
    #[error("{0} buffers: take at least one, and a zone below 4 GiB")]
    Buffers(u32),
    /// No completion, or more than 2^24.
    #[error("room for {0} completions: take a power of two from 1 to 2^24")]
    Completions(u32),
}

/// Error of creating a shared ring.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The caller's configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The system returned an error.
    #[error("the system gave no shared memory for the ring: {0}")]
    System(#[from] std::io::Error),
}

/// Error of opening a ring made by another process.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Not a memfd sealed against shrinking, growing and further sealing.
    #[error("the ring's file is not sealed: the other side must pass a memfd with SHRINK, GROW and SEAL sealed")]
    NotSealed,
    /// The file's size differs from its header.
    #[error("the ring's file is {found} bytes long and its header says {expected}")]
    Size {
        /// Size by the header.
        expected: u64,
        /// Actual size.
        found: u64,
    },
    /// The file is no ring, or one of another version.
    #[error("the ring's header begins with {0:#x}: the other side speaks another version")]
    Header(u64),
    /// The header describes an invalid ring.
    #[error("the ring's header is wrong: {0}")]
    Config(#[from] ConfigError),
    /// The ring exceeds this side's limits.
    #[error("the ring takes {bytes} bytes and {slots} slots, which is more than is granted")]
    OverLimit {
        /// Size of the file.
        bytes: u64,
        /// Number of slots.
        slots: u32,
    },
    /// This side of the ring is already open.
    #[error("this side of the ring is open already: a ring has one producer and one consumer")]
    Taken,
    /// The indexes are not those of a new ring.
    #[error("the ring's indexes are not those of a new ring")]
    NotFresh,
    /// The system returned an error.
    #[error("the system did not map the ring: {0}")]
    System(#[from] std::io::Error),
}
