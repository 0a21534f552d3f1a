//! Datagrams that leave by plain sockets: counted by a program at the IP layer's egress, and charged to their macroflows (Andersen et al. §2.1:
//! the IP layer's notify).

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::path::Path as FilePath;

use libbpf_rs::{Link, MapCore, MapFlags, Object, ObjectBuilder, PrintLevel, set_print};
use timeous_cm::{FlowId, Manager};
use timeous_core::Instant;

use crate::error::KernelError;
use crate::program::refused;

/// The compiled program.
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/datagrams.bpf.o"));
/// Names in the object.
const COUNTERS: &str = "datagrams";
const PROGRAM: &str = "timeous_count";
/// Size of `struct ends`, in bytes.
const KEY: usize = 20;

/// Flow whose datagrams are counted.
#[derive(Debug)]
struct Watched {
    key: [u8; KEY],
    /// Bytes that the client had reported when counting began.
    base: u64,
    /// Bytes that had been counted at the last round.
    counted: u64,
}

/// Counter of the datagrams that leave from a cgroup's sockets.
///
/// Counted are those of the manager's flows that have a local and a remote address. A client that reports its datagrams itself is
/// not charged twice: only what a round has counted, and the client has not reported by the next, is charged.
#[derive(Debug)]
pub struct DatagramCounter {
    object: Object,
    /// The program runs as long as this is open.
    _link: Link,
    watched: BTreeMap<FlowId, Watched>,
    taken: BTreeSet<[u8; KEY]>,
}

impl DatagramCounter {
    /// Attaches the program to a cgroup (version 2), such as the root at `/sys/fs/cgroup`. It is removed with this value.
    ///
    /// # Errors
    /// [`KernelError`], by cause.
    pub fn attach(cgroup: &FilePath) -> Result<Self, KernelError> {
        let directory = File::open(cgroup).map_err(KernelError::system("open the cgroup"))?;
        // libbpf prints its errors on standard error, too.
        set_print(Some((PrintLevel::Debug, |_, _| {})));
        let object = ObjectBuilder::default().open_memory(OBJECT).and_then(|object| object.load()).map_err(cannot)?;
        let program = object.progs_mut().find(|program| program.name() == PROGRAM).expect("the object has its program");
        let link = program.attach_cgroup(directory.as_raw_fd()).map_err(cannot)?;
        Ok(Self { object, _link: link, watched: BTreeMap::new(), taken: BTreeSet::new() })
    }

    /// Returns whether any flow's datagrams are counted: then [`charge`](Self::charge) is due every 10 ms, else a few times a second.
    pub fn is_watching(&self) -> bool {
        !self.watched.is_empty()
    }

    /// Charges what has left without a report to the flows' macroflows, and begins to count for new flows. Returns
    /// the bytes charged.
    ///
    /// # Errors
    /// [`KernelError::System`] if the counters cannot be read or written.
    pub fn charge(&mut self, now: Instant, manager: &mut Manager) -> Result<u64, KernelError> {
        let counters = self.object.maps().find(|map| map.name() == COUNTERS).expect("the object has its counters");
        let failed = |error: libbpf_rs::Error| KernelError::System {
            what: "count datagrams",
            source: io::Error::other(error.to_string()),
        };
        let flows: Vec<_> = manager.addressed_flows().collect();
        let open: BTreeSet<FlowId> = flows.iter().map(|flow| flow.id).collect();
        let gone: Vec<FlowId> = self.watched.keys().copied().filter(|id| !open.contains(id)).collect();
        for Watched { key, .. } in gone.iter().filter_map(|id| self.watched.remove(id)) {
            self.taken.remove(&key);
            counters.delete(&key).map_err(failed)?;
        }
        let mut charged = 0;
        for flow in flows {
            let Some(watched) = self.watched.get_mut(&flow.id) else {
                let key = key(flow.local, flow.remote);
                // Several flows of the same ends cannot be told apart: the first one is charged.
                if flow.local.port() != 0 && self.taken.insert(key) {
                    counters.update(&key, &0_u64.to_ne_bytes(), MapFlags::ANY).map_err(failed)?;
                    self.watched.insert(flow.id, Watched { key, base: flow.sent, counted: 0 });
                }
                continue;
            };
            let value = counters.lookup(&watched.key, MapFlags::ANY).map_err(failed)?.unwrap_or_default();
            let counted = u64::from_ne_bytes(value.try_into().unwrap_or_default());
            // A client's report may be on its way for a round.
            let mut left = watched.counted.saturating_sub(flow.sent - watched.base);
            watched.counted = counted;
            charged += left;
            while left > 0 {
                let packet = left.min(flow.mtu);
                // It is open, and its packets have no more.
                let _ = manager.notify_unasked(now, flow.id, packet);
                left -= packet;
            }
        }
        Ok(charged)
    }
}

/// Converts a libbpf error of loading or attaching.
fn cannot(error: libbpf_rs::Error) -> KernelError {
    match refused(error) {
        KernelError::Unsupported { why } => KernelError::CannotCount { why },
        other => other,
    }
}

/// Ends of a flow as the program sees them.
fn key(local: SocketAddr, remote: SocketAddr) -> [u8; KEY] {
    let address = match remote.ip() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    let mut key = [0; KEY];
    key[..16].copy_from_slice(&address.octets());
    key[16..18].copy_from_slice(&remote.port().to_be_bytes());
    key[18..].copy_from_slice(&local.port().to_be_bytes());
    key
}
