//! Packet zones that the daemon made for clients, from which streams of their users may send.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;

use rustix::rand::{GetRandomFlags, getrandom};
use timeous_engine::{CreateError, SharedZone, ZoneKey};
use timeous_ipc::messages::Failure;

use crate::limits::{Usage, Users};
use crate::streams::Owner;

/// A zone counts for its user until the client and all rings that it is attached to are gone.
#[derive(Debug)]
struct Zone {
    zone: SharedZone,
    owner: Owner,
    bytes: u64,
    /// Whether the client that asked for it is gone: no further ring can get it.
    is_orphaned: bool,
}

/// Table of zones, by their keys.
#[derive(Debug, Default)]
pub(crate) struct Zones(BTreeMap<ZoneKey, Zone>);

impl Zones {
    /// Makes a zone for a client; returns its key and its memory.
    pub(crate) fn make(
        &mut self,
        users: &mut Users,
        owner: Owner,
        buffer_size: u32,
        buffers: u32,
    ) -> Result<(ZoneKey, OwnedFd), Failure> {
        let invalid = |error: timeous_engine::ConfigError| Failure::Invalid(error.to_string());
        let bytes = SharedZone::size(buffer_size, buffers).map_err(invalid)?;
        let key = new_key().map_err(|error| Failure::Environment(error.to_string()))?;
        users.take_zone(owner.uid, bytes)?;
        match SharedZone::create(buffer_size, buffers) {
            Ok((zone, memory)) => {
                self.0.insert(key, Zone { zone, owner, bytes, is_orphaned: false });
                Ok((key, memory))
            }
            Err(error) => {
                release(users, owner, bytes);
                match error {
                    CreateError::Config(error) => Err(invalid(error)),
                    CreateError::System(error) => Err(Failure::Environment(error.to_string())),
                }
            }
        }
    }

    /// Returns the zone of a key, if the user may send from it.
    pub(crate) fn find(&self, uid: u32, key: ZoneKey) -> Option<SharedZone> {
        let zone = self.0.get(&key).filter(|zone| zone.owner.uid == uid && !zone.is_orphaned)?;
        Some(zone.zone.clone())
    }

    /// Lets go of the zones of a departed client.
    pub(crate) fn forget(&mut self, users: &mut Users, owner: Owner) {
        self.0.values_mut().filter(|zone| zone.owner == owner).for_each(|zone| zone.is_orphaned = true);
        self.tidy(users);
    }

    /// Removes the zones whose client and rings are gone. Called periodically.
    pub(crate) fn tidy(&mut self, users: &mut Users) {
        self.0.retain(|_, zone| {
            let stays = !zone.is_orphaned || zone.zone.is_used();
            if !stays {
                release(users, zone.owner, zone.bytes);
            }
            stays
        });
    }
}

fn release(users: &mut Users, owner: Owner, bytes: u64) {
    users.give_back(owner.uid, Usage { zones: 1, ring_bytes: bytes, ..Usage::default() });
}

/// Returns a key that no other client can guess.
fn new_key() -> io::Result<ZoneKey> {
    let mut key = [0; 16];
    // A read of up to 256 bytes is never short (getrandom(2)).
    rustix::io::retry_on_intr(|| getrandom(&mut key, GetRandomFlags::empty()))?;
    Ok(ZoneKey(u128::from_ne_bytes(key)))
}
