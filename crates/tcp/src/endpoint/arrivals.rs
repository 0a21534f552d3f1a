//! Assignment of incoming segments to connections, and handling of those of no connection (RFC 9293 §3.10.7.1,
//! §3.10.7.2).

use std::net::{IpAddr, SocketAddr};

use timeous_cm::Manager;
use timeous_core::{Ecn, Instant, Misuse};

use super::{ConnectionId, Endpoint, FlowKey, Refusal};
use crate::connection::{Connection, State, Target};
use crate::segment::{Addresses, Flags, Header, Segment};

/// Maximum number of pending resets for unknown connections. Chosen by us: it bounds memory under a flood.
const MAX_REFUSALS: usize = 256;

/// Reason why a segment opened no connection.
enum Denied {
    /// Answered with a reset.
    Reset,
    /// Dropped: the peer will retransmit.
    Silently,
}

impl Endpoint {
    /// Processes a segment, from the TCP header on, that was sent from `source` to `destination`.
    ///
    /// # Errors
    /// [`Misuse`] if `now` is before an earlier call's.
    pub fn handle_segment(
        &mut self,
        now: Instant,
        cm: &mut Manager,
        source: IpAddr,
        destination: IpAddr,
        segment: &[u8],
        ecn: Ecn,
    ) -> Result<(), Misuse> {
        self.order.fed(now)?;
        self.reap();
        let Ok(segment) = Segment::parse(segment, Addresses { source, destination }) else {
            self.statistics.malformed += 1;
            return Ok(());
        };
        let key = FlowKey {
            remote: SocketAddr::new(source, segment.header.source_port),
            local: SocketAddr::new(destination, segment.header.dest_port),
        };
        let known = self.keys.get(&key).copied().filter(|&id| !self.gives_way(id, &segment));
        let id = match known.map_or_else(|| self.admit(now, key, &segment), Ok) {
            Ok(id) => id,
            Err(Denied::Silently) => return Ok(()),
            Err(Denied::Reset) => {
                self.refuse(now, key, &segment);
                return Ok(());
            }
        };
        if let Some(slot) = self.slots.get_mut(id) {
            slot.connection.handle_segment(now, cm, &segment, ecn)?;
            self.after(id);
        }
        Ok(())
    }

    /// Returns whether a connection in TIME-WAIT is replaced by a new one with the same addresses and ports (RFC 9293
    /// §3.6.1).
    fn gives_way(&mut self, id: ConnectionId, segment: &Segment<'_>) -> bool {
        let gives = self.lingering.contains(&id)
            && self.listeners.contains(&segment.header.dest_port)
            && self.slots.get(id).is_some_and(|slot| slot.connection.is_outlived_by(segment));
        if gives {
            self.remove(id);
        }
        gives
    }

    /// Opens a connection for a segment of none, if it is an acceptable SYN.
    fn admit(&mut self, now: Instant, key: FlowKey, segment: &Segment<'_>) -> Result<ConnectionId, Denied> {
        let is_syn = segment.has(Flags::SYN) && segment.header.ack.is_none() && !segment.has(Flags::RST);
        if !is_syn {
            self.statistics.stray += 1;
            return Err(Denied::Reset);
        }
        if !self.listeners.contains(&key.local.port()) {
            self.statistics.refused += 1;
            return Err(Denied::Reset);
        }
        let is_full = self.slots.len() - self.lingering.len() >= self.config.max_connections
            || (self.half_open.len() >= self.config.max_half_open && !self.evict(now));
        if is_full {
            self.statistics.refused += 1;
            return Err(Denied::Silently);
        }
        let target = Target { local: key.local, remote: key.remote, dscp: self.config.dscp };
        let connection = Connection::listen(now, self.config.connection.clone(), target, &mut self.rng);
        let id = self.add(now, key, connection);
        self.half_open.insert(id);
        Ok(id)
    }

    /// Evicts the oldest half-open connection, if it had enough time.
    fn evict(&mut self, now: Instant) -> bool {
        let oldest = self.half_open.first().and_then(|id| Some((*id, self.slots.get(*id)?.since)));
        let Some((oldest, _)) = oldest.filter(|&(_, since)| now - since >= self.config.half_open_patience) else {
            return false;
        };
        self.statistics.evicted += 1;
        self.remove(oldest);
        true
    }

    /// Resets a segment of no connection, rate-limited, unless it is a reset.
    fn refuse(&mut self, now: Instant, key: FlowKey, segment: &Segment<'_>) {
        if segment.has(Flags::RST) || self.refusals.len() >= MAX_REFUSALS || !self.refusal_rate.take(now) {
            return;
        }
        self.statistics.resets_sent += 1;
        let blank = Header::new(key.local.port(), key.remote.port(), segment.header.ack.unwrap_or_default());
        let ack = if segment.header.ack.is_some() { None } else { Some(segment.end()) };
        self.refusals.push_back(Refusal { key, header: Header { ack, flags: Flags::RST, ..blank } });
    }

    /// Returns whether the connection is past its handshake and has not ended.
    pub(super) fn is_open(connection: &Connection) -> bool {
        connection.state() >= State::Established && connection.state().is_alive()
    }
}
