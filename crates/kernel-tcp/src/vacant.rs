//! Vacant records: stale records that were sent and may be retransmitted, used to carry fresh data in those retransmissions.
//!
//! The kernel retransmits a lost record before we learn of the loss. So each vacant record holds a copy of the first datagram in the
//! kernel's queue; if one is retransmitted meanwhile, that datagram was transmitted with it, and its own place is free for a fresh one.
//!
//! That conclusion needs exactly one lost segment, the first unacknowledged one, and exactly one retransmission since the copy; no split
//! records, no reordering, and a path that was seen to pass changes. Only datagrams with a deadline are used: a middlebox may send on its
//! buffered copy, and its acknowledgements mislead.

use std::io;

use timeous_core::{AduSource, Instant};
use timeous_transport::Statistics;

use crate::sending::Sending;
use crate::socket::Socket;
use crate::under_way::{CopiedDatagram, Guest};

/// Maximum number of vacant records with a copy: the kernel retransmits from the first one on. Chosen by us: a higher
/// value copies data that is rarely needed.
const MOST: usize = 16;

impl Sending {
    /// Copies the first datagram in the kernel's queue into the vacant records, and removes copies that have gone stale.
    pub(crate) fn lend(&mut self, now: Instant, socket: &Socket) -> io::Result<()> {
        let vacant = self.under_way.vacant(MOST);
        if vacant.is_empty() {
            self.lent = None;
            return Ok(());
        }
        let horizon = now + self.meter.path().one_way();
        for &(place, _) in vacant.iter().filter(|(_, guest)| guest.is_some_and(|guest| guest.until < horizon)) {
            self.under_way.lend(place, None);
            self.write_padding(place);
        }
        let sent = self.sent(socket.unsent()?);
        let fresh = self.under_way.first_fresh(sent).filter(|_| self.bearing.allows(now));
        let Some(fresh) = fresh else { return Ok(()) };
        let record = self.under_way.record(fresh);
        let guest = record.token.zip(record.meta.and_then(|meta| meta.deadline)).map(|(of, until)| Guest { of, until });
        let Some(guest) = guest.filter(|guest| guest.until >= horizon) else { return Ok(()) };
        let len = record.len();
        let lacks_it = |&(place, other): &(usize, Option<Guest>)| {
            (other != Some(guest) && len <= self.under_way.record(place).len()).then_some(place)
        };
        let lacking: Vec<usize> = vacant.iter().filter_map(lacks_it).collect();
        if lacking.is_empty() {
            return Ok(());
        }
        self.under_way.lends(fresh, socket.info()?.retransmitted());
        for place in lacking {
            if self.copy(fresh, place) {
                self.under_way.lend(place, Some(guest));
            }
        }
        let info = socket.info()?;
        self.lent =
            Some(CopiedDatagram { of: guest.of, retransmitted: info.retransmitted(), unhurt: info.holes() == 0 });
        Ok(())
    }

    /// Removes all copies of the datagram in `place`: from now on it is transmitted only from its own record.
    pub(crate) fn take_back_copies(&mut self, place: usize) {
        for guest in self.under_way.guests_of(place) {
            self.under_way.lend(guest, None);
            self.write_padding(guest);
        }
    }

    /// Copies a record into another one that is no shorter; returns whether it could.
    fn copy(&mut self, from: usize, to: usize) -> bool {
        let len = self.under_way.record(from).len();
        let (Some(zone), Some((_, slot))) = (&self.zone, &self.under_way.record(from).slot) else { return false };
        let mut record = Vec::with_capacity(len);
        zone.read(slot, len, &mut record);
        self.write_copy(&record, to)
    }

    /// Moves a datagram that was transmitted in a vacant record to that record, and puts a fresh one into its place.
    pub(crate) fn board(
        &mut self,
        now: Instant,
        socket: &Socket,
        source: &mut dyn AduSource,
        counts: &mut Statistics,
    ) -> io::Result<()> {
        let again =
            |lent: &CopiedDatagram| self.meter.info().is_some_and(|info| info.retransmitted() != lent.retransmitted);
        let Some(lent) = self.lent.take_if(|lent| again(lent)) else { return Ok(()) };
        let info = socket.info()?;
        let one = lent.unhurt && info.retransmitted() == lent.retransmitted.wrapping_add(1) && info.repairs_one();
        let first = self.under_way.vacant(1).first().copied();
        let first = first.is_some_and(|(place, guest)| place == 0 && guest.is_some_and(|guest| guest.of == lent.of));
        if !one || !first || info.is_reordered() || self.acknowledged(socket)? != self.under_way.record(0).start {
            return Ok(());
        }
        // The peer SACKed later data and lacks this record: an arrival from now on is the retransmission.
        self.under_way.tells_from(0, now);
        let sent = self.sent(info.unsent());
        let fresh =
            self.under_way.first_fresh(sent).filter(|&fresh| self.under_way.record(fresh).token == Some(lent.of));
        let Some(fresh) = fresh.filter(|_| self.bearing.is_borne()) else { return Ok(()) };
        let Some((pulled, number)) = self.pull_for(now, fresh, source) else { return Ok(()) };
        self.write_record(fresh);
        self.retire(0, source, counts);
        self.under_way.board(fresh, 0);
        self.replaced += 1;
        // `info` waits for a transmission in progress: if the record was sent meanwhile, either datagram may have been in it.
        let sent = self.sent(socket.info()?.unsent());
        if self.under_way.record(fresh).start < sent {
            self.copied(fresh, pulled, number);
            return Ok(());
        }
        self.under_way.replace(fresh, Some(&pulled));
        source.sent(pulled.token);
        counts.data_sent += 1;
        counts.bytes_sent += self.payload.len() as u64;
        Ok(())
    }
}
