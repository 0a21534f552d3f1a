//! Fates of datagrams, withheld at the start of a plain call until the peer can have refused the stream: its kernel acknowledges data
//! before it has looked at them.

use timeous_core::{AduSource, Duration, Instant};
use timeous_transport::Statistics;

/// Time for the peer to refuse a stream whose first data its kernel has acknowledged. Chosen by us: a higher value frees the packet ring
/// later, a lower one reports the data to a busy peer that takes encrypted streams only as arrived.
const REFUSAL_WAIT: Duration = Duration::from_millis(100);

/// Fates on their way to the application.
#[derive(Debug, Default)]
pub(crate) struct Fates {
    withholding: Withholding,
    /// Tokens, each with whether its datagram arrived.
    withheld: Vec<(u64, bool)>,
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

    /// Reports the fate of an acknowledged datagram.
    pub(crate) fn report(
        &mut self,
        now: Instant,
        fate: (u64, bool),
        source: &mut dyn AduSource,
        counts: &mut Statistics,
    ) {
        match self.withholding {
            Withholding::Never => return tell(fate, source, counts),
            Withholding::UntilFirst => self.withholding = Withholding::Until(now + REFUSAL_WAIT),
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
        self.withheld.drain(..).for_each(|(token, _)| source.lost(token));
    }
}

fn tell((token, has_arrived): (u64, bool), source: &mut dyn AduSource, counts: &mut Statistics) {
    if has_arrived {
        source.acked(token);
        counts.acked += 1;
    } else {
        source.lost(token);
        counts.lost += 1;
    }
}
