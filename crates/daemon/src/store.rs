//! Path memory on disk: what is known of a path outlives flows, and the daemon.
//!
//! RFC 9040 §6 calls it temporal sharing: what a closing connection knew starts the next one to the same host. It names no
//! age at which such knowledge is worthless; its §8.1 says that it spoils like that of a connection that has gone idle, and
//! that what is done about those (RFC 7661) may be done here. So the store keeps the time at which a path was last seen, and
//! gives the age along: what an old window is still worth is for the Congestion Manager to say. What is older than
//! [`KEEP`] is forgotten, since by then addresses have changed hands (§8.3).
//!
//! All is in memory, within bounds; a thread of its own writes what has changed. No call waits for the disk.

mod error;
mod file;
mod memory;
mod writer;

use std::path::{Path, PathBuf};

use timeous_cm::{Destination, Learnt};
use timeous_core::Duration;

use crate::wall::WallTime;

pub use error::{SetAside, StoreError};
pub use memory::{CAPACITY, KEEP, Remembered};

use file::File;
use memory::Memory;
use writer::Writer;

/// What is remembered of paths, by [`Destination`]: entries of different users are different entries.
///
/// ```
/// use std::net::{IpAddr, Ipv4Addr};
/// use timeous_cm::{Destination, Learnt};
/// use timeous_core::{Duration, Rate};
/// use timeous_daemon::store::Store;
/// use timeous_daemon::wall::WallTime;
///
/// let room = tempfile::tempdir().unwrap();
/// let monday = WallTime::since_epoch(Duration::from_secs(1_700_000_000));
/// let tuesday = WallTime::since_epoch(Duration::from_secs(1_700_086_400));
/// let host = Destination::from(IpAddr::V4(Ipv4Addr::LOCALHOST));
///
/// let (store, _) = Store::open(&room.path().join("paths.redb"), monday).unwrap();
/// let round_trip = Duration::from_millis(40);
/// let learnt = Learnt {
///     window: 48_000,
///     ssthresh: None,
///     srtt: round_trip,
///     rttvar: round_trip / 10,
///     min_rtt: round_trip,
///     rate: Rate::from_kbps(9_600),
///     loss_ppm: 0,
/// };
/// store.learn(host, learnt, monday);
/// drop(store); // writes what has changed
///
/// let (store, _) = Store::open(&room.path().join("paths.redb"), tuesday).unwrap();
/// let (learnt, age) = store.recall(&host, tuesday).unwrap();
/// assert_eq!((learnt.window, age), (48_000, Duration::from_secs(86_400)));
/// ```
#[derive(Debug)]
pub struct Store {
    writer: Writer,
}

impl Store {
    /// Opens the path memory in `path`, or begins one. What is damaged is set aside and told, and a new one begun.
    ///
    /// # Errors
    /// [`StoreError::InUse`] if another process has it, the others if the file cannot be reached or made.
    pub fn open(path: &Path, now: WallTime) -> Result<(Self, Option<SetAside>), StoreError> {
        let (file, entries, set_aside) = File::open(path)?;
        let mut memory = Memory::default();
        entries.into_iter().for_each(|(destination, entry)| memory.restore(destination, entry));
        memory.prune(now);
        Ok((Self { writer: Writer::start(file, memory) }, set_aside))
    }

    /// What was learnt of a path, and how long ago.
    pub fn recall(&self, destination: &Destination, now: WallTime) -> Option<(Learnt, Duration)> {
        self.writer.look(|memory| memory.recall(destination, now))
    }

    /// Takes note of what was learnt of a path. It reaches the disk within about a second.
    pub fn learn(&self, destination: Destination, learnt: Learnt, now: WallTime) {
        self.writer.change(|memory| memory.learn(destination, learnt, now));
    }

    /// All that is remembered, in the order of destinations.
    pub fn remembered(&self, now: WallTime) -> Vec<Remembered> {
        self.writer.look(|memory| memory.remembered(now))
    }

    /// How many paths are remembered.
    pub fn len(&self) -> usize {
        self.writer.look(Memory::len)
    }

    /// Whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets the paths that `which` picks. Gives how many.
    pub fn forget(&self, which: impl Fn(&Destination) -> bool) -> usize {
        self.writer.change(|memory| memory.forget(which))
    }

    /// How often writing has failed. What could not be written is tried again, and is remembered in memory meanwhile.
    pub fn failures(&self) -> u64 {
        self.writer.failures()
    }

    /// Waits until all that was learnt so far is on the disk, or could not be written.
    pub fn flush(&self) {
        self.writer.flush();
    }
}

/// Where the path memory is if nobody says otherwise: `/var/lib/timeous/paths.redb` for root, below the user's state
/// directory (`$XDG_STATE_HOME`, or `~/.local/state`) for others. `None` if neither is known.
pub fn default_path() -> Option<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return Some(PathBuf::from("/var/lib/timeous/paths.redb"));
    }
    let of = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = of("XDG_STATE_HOME").or_else(|| Some(of("HOME")?.join(".local/state")))?;
    Some(state.join("timeous/paths.redb"))
}

#[cfg(test)]
mod tests;
