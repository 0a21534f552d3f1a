//! Feedback of the kernel to the sending side: path state, acknowledgements and their times, released memory.

use std::io;

use timeous_cm::Manager;
use timeous_core::{AduSource, Instant, read_both};
use timeous_transport::Statistics;

use super::Sending;
use crate::fates::Acknowledged;
use crate::path_evidence::Version;
use crate::restraint::Restraint;
use crate::socket::{Notice, Socket, stamping_clock};

impl Sending {
    /// Reads the kernel's notices, and queries its path state if the last query is old enough, or if something is acknowledged that the
    /// restraint awaits: at a time that is known, or as the last of all.
    pub(crate) fn measure(&mut self, now: Instant, socket: &Socket, manager: &mut Manager) -> io::Result<()> {
        let awaits_last = self.under_way.is_empty() && self.restraint.as_ref().is_some_and(Restraint::awaits_any);
        if !self.meter.is_due(now) && !awaits_last {
            self.take_notices(socket)?;
            if self.stamps.is_empty() {
                return Ok(());
            }
        }
        let unsent = socket.unsent()?;
        let unacknowledged = socket.unacknowledged()?;
        let info = socket.info()?;
        // Of all that is acknowledged by now.
        self.take_notices(socket)?;
        self.meter.take(now, info, unacknowledged.saturating_sub(unsent).into(), unsent.into());
        let reached = self.given().saturating_sub(unacknowledged.into());
        if let Some(restraint) = &mut self.restraint {
            self.arrived = restraint.heard(now, manager, reached, &mut self.stamps, &info);
        }
        self.stamps.settle(reached);
        let limit = self.meter.queue_limit();
        // Small changes of the rate are not worth a system call.
        if limit.abs_diff(self.told_limit) > self.told_limit / 4 {
            socket.set_unsent_limit(limit)?;
            self.told_limit = limit;
        }
        let longest = self.meter.longest_timeout();
        if longest.max(self.longest_timeout) > longest.min(self.longest_timeout) * 5 / 4 {
            socket.set_longest_timeout(longest);
            self.longest_timeout = longest;
        }
        Ok(())
    }

    /// Returns the number of stream bytes given to the kernel.
    fn given(&self) -> u64 {
        self.under_way.end() - self.rest.as_ref().map_or(0, |rest| rest.bytes.len() - rest.from) as u64
    }

    /// Returns the number of stream bytes sent, given the number of `unsent` bytes in the kernel.
    pub(crate) fn sent(&self, unsent: u32) -> u64 {
        self.given().saturating_sub(unsent.into())
    }

    /// Returns the number of cumulatively acknowledged stream bytes.
    pub(crate) fn acknowledged(&self, socket: &Socket) -> io::Result<u64> {
        Ok(self.given().saturating_sub(socket.unacknowledged()?.into()))
    }

    /// Reads the kernel's notices.
    pub(crate) fn take_notices(&mut self, socket: &Socket) -> io::Result<()> {
        // One pair of clocks for all: a pause between two readings would put one acknowledgement's records apart.
        let mut clocks = None;
        while let Some(notice) = socket.notice()? {
            match notice {
                Notice::Released(released) => self.released.push(released),
                Notice::Stamped(stamped) => {
                    let (own, stamping) = *clocks.get_or_insert_with(|| read_both(self.clock, stamping_clock));
                    let at = own.saturating_sub(stamping.saturating_sub(stamped.at));
                    self.stamps.add(self.given(), stamped.last, at);
                }
                Notice::Other => {}
            }
        }
        Ok(())
    }

    /// Processes acknowledgements, and the notices that were read of memory that the kernel has released.
    pub(crate) fn settle(
        &mut self,
        now: Instant,
        socket: &Socket,
        source: &mut dyn AduSource,
        counts: &mut Statistics,
    ) -> io::Result<bool> {
        let released = std::mem::take(&mut self.released);
        let acked = self.acknowledged(socket)?;
        let mut progress = !released.is_empty();
        while let Some(version) = self.under_way.next_version(acked) {
            let retransmitted = match version {
                Version::Restored { .. } => socket.info()?.retransmitted(),
                Version::First | Version::Changed { .. } => 0,
            };
            self.bearing.learn(now, version, retransmitted);
            let Some(arrived) = self.under_way.pop_acked(acked) else { break };
            progress = true;
            let Some(token) = arrived.token else { continue };
            let as_it_was = match arrived.overwritten {
                Some(retransmitted) => socket.info()?.retransmitted() == retransmitted,
                None => !(arrived.boarded && socket.info()?.is_reordered()),
            };
            let srtt = self.meter.path().srtt.unwrap_or_default();
            let was_first = arrived.overwritten.is_none() && !arrived.boarded;
            let exactly = self.arrived.filter(|(end, _)| was_first && *end == arrived.end).map(|(_, exactly)| exactly);
            let fate = Acknowledged { token, has_arrived: as_it_was, exactly };
            self.fates.report((now, srtt), fate, source, counts);
        }
        progress |= self.fates.settle(now, source, counts);
        self.look_for_cuts(acked, socket)?;
        for range in released {
            // Released before it was acknowledged: the kernel copied it when it was given. A device of this host that copies, such as
            // loopback, does so at each transmission.
            let too_early = range.copied && self.under_way.has_send(range.last);
            if let Some(zone) = &mut self.zone {
                self.under_way.released(range.first, range.last, |slot| zone.give_back(slot));
            }
            if too_early {
                tracing::debug!("the kernel copies what is sent: late choice ends at its queue");
                self.zone = None;
                self.under_way.forget_places();
            } else {
                self.proven = true;
            }
        }
        Ok(progress)
    }

    /// Checks whether the first unacknowledged record arrives in parts.
    fn look_for_cuts(&mut self, acked: u64, socket: &Socket) -> io::Result<()> {
        let Some(mss) = self.meter.info().map(|info| info.mss() as usize) else { return Ok(()) };
        if self.zone.is_some() && self.under_way.cut(acked, u64::MAX, mss).is_some() {
            let sent = self.sent(socket.unsent()?);
            if let Some(start) = self.under_way.cut(acked, sent, mss) {
                self.bearing.is_cut(start);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use timeous_cm::Kind;
    use timeous_tcp::StreamBuffer;

    use super::*;
    use crate::config::TcpConfig;

    /// Number of times that this thread lets others go first before it gives up: seconds.
    const TURNS: u32 = 10_000_000;

    /// Found by review: where the kernel stamps nothing, a stream told of its last acknowledgements with the kernel's next state only, and
    /// one that had closed told of none, so that these bytes took the place of other streams to the same host.
    #[test]
    fn the_last_bytes_of_a_stream_are_under_way_no_longer_than_they_are() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = Socket::accepted(TcpStream::connect(listener.local_addr().unwrap()).unwrap()).unwrap();
        let _peer = listener.accept().unwrap();
        let mut sending = Sending::new(|| Instant::ZERO, (&TcpConfig::default(), None), &socket, None).unwrap();
        // Set now, it asks for no stamps, as with kernels before 6.2.
        sending.controller = Some((Kind::Live, 1_300));
        let (now, mut manager, mut counts) = (Instant::ZERO, Manager::default(), Statistics::default());
        let mut source = StreamBuffer::new(1_000);
        source.write(&[7; 1_000]);
        sending.measure(now, &socket, &mut manager).unwrap();
        assert!(sending.transmit(now, &socket, &mut source, &mut counts, &mut manager).unwrap());
        let outstanding = |manager: &Manager, sending: &Sending| {
            manager.query(sending.flow().expect("it was opened")).unwrap().outstanding
        };
        assert!(outstanding(&manager, &sending) >= 1_000);
        let is_acknowledged = (0..TURNS).any(|_| {
            std::thread::yield_now();
            sending.acknowledged(&socket).unwrap() == sending.given()
        });
        assert!(is_acknowledged);
        sending.settle(now, &socket, &mut source, &mut counts).unwrap();
        assert!(sending.is_empty(), "a stream that ends closes now");
        sending.measure(now, &socket, &mut manager).unwrap();
        assert_eq!(outstanding(&manager, &sending), 0);
    }
}
