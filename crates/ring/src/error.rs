//! What can go wrong with a ring, by culprit.

use crate::page::PAGE;

/// The consumer found something in shared memory that no honest producer writes: the application's fault.
///
/// The ring gives nothing more after it. Close the connection; other rings are not touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// `kern_i`, which only the consumer moves, has changed.
    #[error(
        "kern_i is {found} in shared memory and {expected} in truth: the application wrote a word of the transport"
    )]
    KernMoved {
        /// The consumer's private copy.
        expected: u32,
        /// What shared memory held.
        found: u32,
    },
    /// `umod_i` is not between `kern_i` and `user_i`.
    #[error("umod_i is {umod} with kern_i at {kern} and user_i at {user}: it must lie between them")]
    UmodOutside {
        /// The consumer's `kern_i`.
        kern: u64,
        /// What was read.
        umod: u64,
        /// The latest `user_i`.
        user: u64,
    },
    /// `user_i` moved backwards.
    #[error("user_i went back from {last} to {found}")]
    UserWentBack {
        /// The latest `user_i`.
        last: u64,
        /// What was read.
        found: u64,
    },
    /// More packets than the ring holds.
    #[error("user_i is {user} with dev_i at {dev}: a ring of {slots} slots holds one packet less than slots")]
    TooManyPackets {
        /// The consumer's `dev_i`.
        dev: u64,
        /// What was read.
        user: u64,
        /// Slots of the ring.
        slots: u32,
    },
    /// A published record was being written, or never was.
    #[error("the record of packet {token} changed while the transport owned it")]
    Torn {
        /// The packet's position.
        token: u64,
    },
    /// A record's fields make no sense.
    #[error("the record of packet {token} cannot be read: its attributes are {attributes:#x}")]
    BadRecord {
        /// The packet's position.
        token: u64,
        /// The word that says so.
        attributes: u64,
    },
    /// A payload that is not in the packet zone, or longer than a buffer.
    #[error("packet {token} is said to be {len} bytes at {offset}, which is not in the packet zone")]
    BadPlace {
        /// The packet's position.
        token: u64,
        /// Offset in the zone.
        offset: u32,
        /// Its length.
        len: u32,
    },
    /// The completion ring's read index is not behind its write index, or went back.
    #[error("the completion ring was read up to {found}, which is not between {read} and {written}")]
    BadCompletionIndex {
        /// Read before.
        read: u64,
        /// Written so far.
        written: u64,
        /// What was read from shared memory.
        found: u64,
    },
    /// The packed word changed at every attempt to move `kern_i`.
    #[error("umod_i changed {attempts} times in a row under the transport's hands")]
    Contended {
        /// How often it was tried.
        attempts: u32,
    },
}

/// The producer found something that no honest consumer writes: the transport's fault. Open another ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// `kern_i` is not between the last one seen and `umod_i`, or `umod_i` was changed.
    #[error("the transport moved kern_i or umod_i where it must not ({found:#x}): open another ring")]
    Packed {
        /// The word that was read.
        found: u64,
    },
    /// `dev_i` is not between the last one seen and `user_i`.
    #[error("the transport moved dev_i to {found}, which is not between {last} and {user}: open another ring")]
    Device {
        /// Seen before.
        last: u64,
        /// What was read.
        found: u64,
        /// The producer's `user_i`.
        user: u64,
    },
    /// The completion ring holds what cannot be.
    #[error("the transport's completion ring is not readable at {at}: open another ring")]
    Completion {
        /// Which completion.
        at: u64,
    },
    /// `kern_i` changed at every attempt to pull back.
    #[error("kern_i changed {attempts} times in a row: open another ring")]
    Contended {
        /// How often it was tried.
        attempts: u32,
    },
}

/// Why an ADU was not enqueued. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnqueueError {
    /// All but one of the slots hold packets that have not left yet.
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
        /// What fits.
        buffer_size: usize,
    },
    /// The range is not within the buffer.
    #[error("bytes {start}..{end} are not within the buffer of {buffer_size} bytes")]
    BadRange {
        /// First byte.
        start: usize,
        /// After the last byte.
        end: usize,
        /// Length of the buffer.
        buffer_size: usize,
    },
    /// The buffer is of another ring.
    #[error("the buffer belongs to another ring's packet zone")]
    ForeignBuffer,
    /// There is no packet at that place.
    #[error("place {index} is beyond the {len} packets that were pulled back")]
    NoSuchPlace {
        /// What was asked for.
        index: usize,
        /// How many there are.
        len: usize,
    },
    /// The transport has closed the ring.
    #[error("the connection is closed: nothing more is sent from this ring")]
    Closed,
    /// The transport broke the ring.
    #[error(transparent)]
    Broken(#[from] Broken),
}

/// A ring that cannot be. Mend the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The number of slots is not a power of two from 2 to 2^20.
    #[error("{0} slots: take a power of two from 2 to 2^20")]
    Slots(u32),
    /// The buffer size is not a positive multiple of [`PAGE`].
    #[error("buffers of {0} bytes: take a positive multiple of {PAGE}")]
    BufferSize(u32),
    /// No buffer, or a zone of more than 4 GiB.
    #[error("{0} buffers: take at least one, and a zone below 4 GiB")]
    Buffers(u32),
    /// No completion, or more than 2^24.
    #[error("room for {0} completions: take a power of two from 1 to 2^24")]
    Completions(u32),
}

/// Why a shared ring was not made.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The caller's configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The system refused.
    #[error("the system gave no shared memory for the ring: {0}")]
    System(#[from] std::io::Error),
}

/// Why a ring made by another process was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Not a memfd sealed against shrinking, growing and further sealing.
    #[error("the ring's file is not sealed: the other side must pass a memfd with SHRINK, GROW and SEAL sealed")]
    NotSealed,
    /// The file is not as long as its header says.
    #[error("the ring's file is {found} bytes long and its header says {expected}")]
    Size {
        /// By its header.
        expected: u64,
        /// In truth.
        found: u64,
    },
    /// Not a ring, or one of another version.
    #[error("the ring's header begins with {0:#x}: the other side speaks another version")]
    Header(u64),
    /// The header describes a ring that cannot be.
    #[error("the ring's header is wrong: {0}")]
    Config(#[from] ConfigError),
    /// More than this side accepts.
    #[error("the ring takes {bytes} bytes and {slots} slots, which is more than is granted")]
    OverLimit {
        /// Size of the file.
        bytes: u64,
        /// Slots.
        slots: u32,
    },
    /// This side of the ring is taken.
    #[error("this side of the ring is open already: a ring has one producer and one consumer")]
    Taken,
    /// The indexes are not those of a ring that has just been made.
    #[error("the ring's indexes are not those of a new ring")]
    NotFresh,
    /// The system refused.
    #[error("the system did not map the ring: {0}")]
    System(#[from] std::io::Error),
}
