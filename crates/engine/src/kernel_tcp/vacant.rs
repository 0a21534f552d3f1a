//! Records that have left and are of no use any more: what they carry if they have to leave again.
//!
//! Which of them are lost is not known, and when it is, the kernel has sent them again already. So all of them carry a copy of
//! what is next to leave, for as long as it waits in the kernel's queue. If one is sent again in that time, that datagram has
//! left with it, and its own place is a fresh one's: the repair has cost the stream nothing.
//!
//! That is certain where one segment alone is lost, the first that the peer waits for, and exactly one was sent again since the copy
//! lies there; while nobody cuts records in two, on a path that was seen to bear changes, and on which segments never overtook each
//! other. Only what has a deadline leaves so: a middlebox may send on what it kept, and its acknowledgements lie.

use std::io;

use timeous_core::{AduSource, Instant};
use timeous_dccp::Statistics;

use super::sending::Sending;
use super::socket::Socket;
use super::under_way::{Guest, Lent};

/// As many of them: the kernel repairs from the first one on.
const MOST: usize = 16;

impl Sending {
    /// Puts copies of what waits in the kernel's queue where what is of no use lies, and takes away those that have gone stale.
    pub(super) fn lend(&mut self, now: Instant, socket: &Socket) -> io::Result<()> {
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
            self.copy(fresh, place);
            self.under_way.lend(place, Some(guest));
        }
        let info = socket.info()?;
        self.lent = Some(Lent { of: guest.of, retransmitted: info.retransmitted(), unhurt: info.holes() == 0 });
        Ok(())
    }

    /// The datagram that is there will leave from nowhere else from now on.
    pub(super) fn take_back_copies(&mut self, place: usize) {
        for guest in self.under_way.guests_of(place) {
            self.under_way.lend(guest, None);
            self.write_padding(guest);
        }
    }

    /// Writes what lies in one place into another that is no shorter.
    fn copy(&mut self, from: usize, to: usize) {
        let (len, room) = (self.under_way.record(from).len(), self.under_way.record(to).len());
        let (Some(zone), Some((_, slot))) = (&self.zone, &self.under_way.record(from).slot) else { return };
        self.scratch.clear();
        zone.read(slot, len, &mut self.scratch);
        timeous_tcp::record::pad(room - len, &mut self.scratch);
        self.write_record(to);
    }

    /// Gives the place of a datagram that has left in another's to a fresh one.
    pub(super) fn board(
        &mut self,
        now: Instant,
        socket: &Socket,
        source: &mut dyn AduSource,
        counts: &mut Statistics,
    ) -> io::Result<()> {
        let again = |lent: &Lent| self.meter.info().is_some_and(|info| info.retransmitted() != lent.retransmitted);
        let Some(lent) = self.lent.take_if(|lent| again(lent)) else { return Ok(()) };
        let info = socket.info()?;
        let one = lent.unhurt && info.retransmitted() == lent.retransmitted.wrapping_add(1) && info.repairs_one();
        let first = self.under_way.vacant(1).first().copied();
        let first = first.is_some_and(|(place, guest)| place == 0 && guest.is_some_and(|guest| guest.of == lent.of));
        if !one || !first || info.is_reordered() || self.acknowledged(socket)? != self.under_way.record(0).start {
            return Ok(());
        }
        // The peer has what is beyond, and not this: what arrives there from now on is what was sent again.
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
        // One that is leaving just now is waited for: if it has left, nobody knows as which of both.
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
