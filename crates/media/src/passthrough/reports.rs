//! Clocks of the streams of a session: RTP timestamps and one wall clock, from sender reports or from arrivals, and reports for players.

use timeous_core::{Duration, Instant};

use crate::rtp::control::Report;

/// Interval of reports to a player. Chosen by us: five times as often as RFC 3550 §6.2 has it for two members, since players need one for
/// lip sync.
const INTERVAL: Duration = Duration::from_secs(1);

/// One instant on the RTP clock of a stream and on the wall clock of its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamClock {
    /// Wall clock: seconds since 1900 and their fraction, 32 bits each.
    pub ntp: u64,
    /// RTP timestamp.
    pub timestamp: u32,
}

impl StreamClock {
    /// The same for another timestamp of the stream, near this one.
    #[must_use]
    pub fn at(self, timestamp: u32, clock_rate: u32) -> Self {
        let ticks = i64::from(timestamp.wrapping_sub(self.timestamp) as i32);
        let fraction = (i128::from(ticks) << 32) / i128::from(clock_rate.max(1));
        Self { ntp: self.ntp.wrapping_add_signed(fraction as i64), timestamp }
    }
}

/// Reports on a stream to its player.
///
/// ```
/// use timeous_core::Instant;
/// use timeous_media::passthrough::{StreamClock, StreamReports};
/// let mut reports = StreamReports::new(48_000);
/// reports.set_clock(StreamClock { ntp: 1 << 32, timestamp: 0 });
/// assert!(reports.sent(Instant::ZERO, 7, 960, 120, "player").is_some());
/// assert!(reports.sent(Instant::ZERO, 7, 1_920, 120, "player").is_none(), "one a second");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct StreamReports {
    clock_rate: u32,
    clock: Option<StreamClock>,
    next: Option<Instant>,
    packets: u32,
    octets: u32,
}

impl StreamReports {
    /// Creates reports on a stream whose RTP clock has this rate.
    pub fn new(clock_rate: u32) -> Self {
        Self { clock_rate, clock: None, next: None, packets: 0, octets: 0 }
    }

    /// Changes the rate of the RTP clock, once it is known.
    pub fn set_clock_rate(&mut self, clock_rate: u32) {
        self.clock_rate = clock_rate;
    }

    /// Takes the clock of the stream, as its sender tells it.
    pub fn set_clock(&mut self, clock: StreamClock) {
        self.clock = Some(clock);
    }

    /// Counts a packet that was sent under `ssrc`, with this timestamp and payload length; returns a report, if one is due.
    pub fn sent(&mut self, now: Instant, ssrc: u32, timestamp: u32, octets: usize, name: &str) -> Option<Vec<u8>> {
        self.packets = self.packets.wrapping_add(1);
        self.octets = self.octets.wrapping_add(octets as u32);
        let clock = self.clock.filter(|_| self.clock_rate > 0)?;
        if self.next.is_some_and(|next| now < next) {
            return None;
        }
        self.next = Some(now + INTERVAL);
        let StreamClock { ntp, timestamp } = clock.at(timestamp, self.clock_rate);
        let (packets, octets) = (self.packets, self.octets);
        Some(Report { ssrc, ntp, timestamp, packets, octets, name }.write())
    }
}
