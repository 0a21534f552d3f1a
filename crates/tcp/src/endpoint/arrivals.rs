//! Assignment of incoming segments to connections, and handling of those of no connection (RFC 9293 §3.10.7.1,
//! §3.10.7.2).

use std::net::{IpAddr, SocketAddr};

use timeous_cm::Manager;
use timeous_core::{Ecn, Instant, Misuse};
use timeous_transport::ConnectionId;

use super::Endpoint;
use super::ports::FlowKey;
use crate::connection::{Connection, Target};
use crate::segment::{Addresses, Flags, Header, Segment};

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
        self.fed(now)?;
        let Ok(segment) = Segment::parse(segment, Addresses { source, destination }) else {
            self.table.statistics.malformed += 1;
            return Ok(());
        };
        let key = FlowKey {
            remote: SocketAddr::new(source, segment.header.source_port),
            local: SocketAddr::new(destination, segment.header.dest_port),
        };
        let known = self.table.find(&key).filter(|&id| !self.gives_way(id, &segment));
        let id = match known.map_or_else(|| self.admit(now, key, &segment), Ok) {
            Ok(id) => id,
            Err(Denied::Silently) => return Ok(()),
            Err(Denied::Reset) => {
                self.refuse(now, key, &segment);
                return Ok(());
            }
        };
        self.update(id, |connection| connection.handle_segment(now, cm, &segment, ecn))
    }

    /// Returns whether a connection in TIME-WAIT is replaced by a new one with the same addresses and ports (RFC 9293
    /// §3.6.1).
    fn gives_way(&mut self, id: ConnectionId, segment: &Segment<'_>) -> bool {
        let gives = self.table.is_lingering(id)
            && self.protocol.listening.contains(&segment.header.dest_port)
            && self.table.get(id).is_some_and(|slot| slot.connection.is_outlived_by(segment));
        if gives {
            self.table.remove(id);
        }
        gives
    }

    /// Opens a connection for a segment of none, if it is an acceptable SYN.
    fn admit(&mut self, now: Instant, key: FlowKey, segment: &Segment<'_>) -> Result<ConnectionId, Denied> {
        let is_syn = segment.has(Flags::SYN) && segment.header.ack.is_none() && !segment.has(Flags::RST);
        if !is_syn {
            self.table.statistics.stray += 1;
            return Err(Denied::Reset);
        }
        if !self.protocol.listening.contains(&key.local.port()) {
            self.table.statistics.refused += 1;
            return Err(Denied::Reset);
        }
        let incoming = self.table.add_incoming(now, key, |endpoint, rng| {
            let target = Target { local: key.local, remote: key.remote, dscp: endpoint.dscp };
            Connection::listen(now, endpoint.connection.clone(), target, rng)
        });
        incoming.ok_or(Denied::Silently)
    }

    /// Resets a segment of no connection, rate-limited, unless it is a reset.
    fn refuse(&mut self, now: Instant, key: FlowKey, segment: &Segment<'_>) {
        if segment.has(Flags::RST) {
            return;
        }
        let blank = Header::new(key.local.port(), key.remote.port(), segment.header.ack.unwrap_or_default());
        let ack = if segment.header.ack.is_some() { None } else { Some(segment.end()) };
        self.table.refuse(now, (key, Header { ack, flags: Flags::RST, ..blank }));
    }
}
