//! Fates of datagrams, withheld at the start of a plain call until the peer can have refused the stream: its kernel acknowledges data
//! before it has looked at them.

use timeous_core::{AduSource, Arrived, Duration, Instant};
use timeous_transport::Statistics;

/// Time for the peer to refuse a stream whose first data its kernel has acknowledged, besides [`ROUND_TRIPS`]; a time, as a peer that takes
/// the stream may never send a byte. `timeous recv` refuses within 0.3 ms of the acknowledgement (median of 200 calls), and within 7.5 ms beside
/// eight busy processes on two cores (the most of 200); the rest is for slower hosts. A higher value frees the packet ring later.
const REFUSAL_WAIT: Duration = Duration::from_millis(100);
/// Smoothed round trips for a refusal that is lost, and comes one and a quarter later since its FIN arrives (RFC 8985 §6.2). Over 200 ms with 5 %
/// loss on the way back 8 refusals of 240 came after 100 ms: seven after 260, and one, lost with its FIN, after 830. A higher value frees the
/// packet ring later.
const ROUND_TRIPS: u64 = 2;

/// A datagram whose bytes are acknowledged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acknowledged {
    pub(crate) token: u64,
    /// Whether the bytes were the datagram's.
    pub(crate) has_arrived: bool,
    /// Its arrival, if that is known.
    pub(crate) exactly: Option<Arrived>,
}

/// Fates on their way to the application.
#[derive(Debug, Default)]
pub(crate) struct Fates {
    withholding: Withholding,
    withheld: Vec<Acknowledged>,
}

#[derive(Debug, Default)]
enum Withholding {
    #[default]
    Never,
    UntilFirst,
    Until(Instant),
}

impl Fates {
    /// Withholds fates until the peer has sent data, or has had the time for a refusal.
    pub(crate) fn withhold(&mut self) {
        self.withholding = Withholding::UntilFirst;
    }

    /// Returns whether no fate is withheld.
    pub(crate) fn is_empty(&self) -> bool {
        self.withheld.is_empty()
    }

    /// Reports the fate of a datagram that was acknowledged over this smoothed round trip.
    pub(crate) fn report(
        &mut self,
        (now, srtt): (Instant, Duration),
        fate: Acknowledged,
        source: &mut dyn AduSource,
        counts: &mut Statistics,
    ) {
        match self.withholding {
            Withholding::Never => return tell(fate, source, counts),
            Withholding::UntilFirst => {
                self.withholding = Withholding::Until(now + REFUSAL_WAIT + srtt * ROUND_TRIPS);
            }
            Withholding::Until(_) => {}
        }
        self.withheld.push(fate);
    }

    /// Reports the withheld fates if the peer takes the stream; returns whether there were any.
    pub(crate) fn settle(&mut self, now: Instant, source: &mut dyn AduSource, counts: &mut Statistics) -> bool {
        let is_taken = match self.withholding {
            Withholding::Never => return false,
            Withholding::UntilFirst => false,
            Withholding::Until(until) => now >= until,
        };
        let is_due = (is_taken || counts.packets_received > 0) && !self.is_empty();
        if is_due {
            self.release(source, counts);
        }
        is_due
    }

    /// Reports the withheld fates.
    pub(crate) fn release(&mut self, source: &mut dyn AduSource, counts: &mut Statistics) {
        self.withholding = Withholding::Never;
        self.withheld.drain(..).for_each(|fate| tell(fate, source, counts));
    }

    /// Reports the withheld datagrams as lost: the peer has refused the stream.
    pub(crate) fn refuse(&mut self, source: &mut dyn AduSource) {
        self.withheld.drain(..).for_each(|fate| source.lost(fate.token));
    }
}

fn tell(fate: Acknowledged, source: &mut dyn AduSource, counts: &mut Statistics) {
    let Acknowledged { token, has_arrived, exactly } = fate;
    if has_arrived {
        source.arrived(token, Instant::ZERO, exactly);
        counts.acked += 1;
    } else {
        source.lost(token);
        counts.lost += 1;
    }
}

#[cfg(test)]
mod tests {
    use timeous_tcp::StreamBuffer;

    use super::*;

    /// Found by measurement: over a round trip of 200 ms the refusal comes 260 ms after the first acknowledgement if its packet is lost once.
    #[test]
    fn a_refusal_may_be_lost_once_on_any_path() {
        let withheld_for = |srtt| {
            let (mut fates, mut counts) = (Fates::default(), Statistics::default());
            let mut source = StreamBuffer::new(1_000);
            fates.withhold();
            let fate = Acknowledged { token: 1, has_arrived: true, exactly: None };
            fates.report((Instant::ZERO, srtt), fate, &mut source, &mut counts);
            (1..10_000).find(|&ms| fates.settle(Instant::ZERO + Duration::from_millis(ms), &mut source, &mut counts))
        };
        assert_eq!(withheld_for(Duration::ZERO), Some(100));
        let [far, repaired] = [Duration::from_millis(200), Duration::from_millis(260)];
        assert!(withheld_for(far).is_some_and(|ms| Duration::from_millis(ms) > repaired));
    }
}
