//! Path memory on disk: path states survive flows and daemon restarts.
//!
//! This is temporal sharing (RFC 9040 §6): the state of a closing connection initialises the next one to the same host.
//!
//! State ages as that of an idle connection does (§8.1; RFC 7661). The store reports when a path was last used, and the Congestion Manager
//! decides the value of an old window. Paths older than [`KEEP`] are removed, since addresses are reassigned (§8.3).
//!
//! All data is in memory, within bounds; a thread of its own writes changes. No call waits for the disk.

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

/// Remembered path states, by [`Destination`]: entries of different users are separate.
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
    /// Opens the path memory at `path`, or creates it. A damaged file is moved aside and reported, and a new one created.
    ///
    /// # Errors
    /// [`StoreError::InUse`] if another process has it open, others if the file cannot be accessed or created.
    pub fn open(path: &Path, now: WallTime) -> Result<(Self, Option<SetAside>), StoreError> {
        let (file, entries, set_aside) = File::open(path)?;
        let mut memory = Memory::default();
        entries.into_iter().for_each(|(destination, entry)| memory.restore(destination, entry));
        memory.prune(now);
        Ok((Self { writer: Writer::start(file, memory) }, set_aside))
    }

    /// Returns the learned state of a path, and its age.
    pub fn recall(&self, destination: &Destination, now: WallTime) -> Option<(Learnt, Duration)> {
        self.writer.look(|memory| memory.recall(destination, now))
    }

    /// Remembers the learned state of a path. It is on disk within about a second. Paths from another source address than the
    /// route's own are not remembered: such an address belongs to an uplink that comes and goes.
    pub fn learn(&self, destination: Destination, learnt: Learnt, now: WallTime) {
        if destination.source.is_some() {
            return;
        }
        self.writer.change(|memory| memory.learn(destination, learnt, now));
    }

    /// Returns all entries, in order of destinations.
    pub fn remembered(&self, now: WallTime) -> Vec<Remembered> {
        self.writer.look(|memory| memory.remembered(now))
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.writer.look(Memory::len)
    }

    /// Returns whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes the paths that `which` selects, and returns their number.
    pub fn forget(&self, which: impl Fn(&Destination) -> bool) -> usize {
        self.writer.change(|memory| memory.forget(which))
    }

    /// Returns the number of failed writes. Failed changes are kept in memory and retried.
    pub fn failures(&self) -> u64 {
        self.writer.failures()
    }

    /// Waits until all changes so far are on disk, or could not be written.
    pub fn flush(&self) {
        self.writer.flush();
    }
}

/// Returns the default path: `/var/lib/timeous/paths.redb` for root, in the user's state directory (`$XDG_STATE_HOME`, or `~/.local/state`)
/// for others. `None` if neither is known.
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
