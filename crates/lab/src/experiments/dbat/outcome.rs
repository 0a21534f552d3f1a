//! Outcome of a run, and the values computed from it.

use std::ops::Range;

use timeous::core::{Duration, Instant};

use super::super::goddard::message::PACKET;
use super::super::goddard::player::{Pause, ReceivedPacket};
use super::super::goddard::server::{GeneratedPacket, RateChange, SenderDrop};
use super::setup::{FTP, STREAM};

/// Outcome of a run.
pub(crate) struct Outcome {
    pub(crate) made: Vec<GeneratedPacket>,
    pub(crate) switches: Vec<RateChange>,
    pub(crate) received: Vec<ReceivedPacket>,
    pub(crate) pauses: Vec<Pause>,
    /// Times at which FTP data became readable, with the number of bytes.
    pub(crate) ftp: Vec<(Instant, u64)>,
}

/// Lost packets by place of loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct LossCounts {
    /// Rejected by a full send buffer.
    pub(crate) full: u64,
    /// Dropped by late choice.
    pub(crate) choice: u64,
    /// Lost in the network.
    pub(crate) network: u64,
    /// Runs of consecutive losses.
    pub(crate) runs: u64,
    /// Runs of ten or more.
    pub(crate) bursts: u64,
    /// Length of the longest run.
    pub(crate) longest: u64,
    /// Marked packets rejected by a full send buffer or dropped by late choice.
    pub(crate) marked: u64,
}

impl LossCounts {
    pub(crate) fn all(&self) -> u64 {
        self.full + self.choice + self.network
    }

    /// Returns the mean length of a run; zero if nothing was lost.
    pub(crate) fn mean_run(&self) -> f64 {
        self.all() as f64 / self.runs.max(1) as f64
    }
}

/// Least length of a run of losses that counts as a burst.
const BURST: u64 = 10;

fn seconds(at: Instant) -> f64 {
    at.saturating_since(Instant::ZERO).as_secs_f64()
}

impl Outcome {
    /// Returns the share of the stream's time spent buffering: in total, and without the initial
    /// buffering.
    pub(crate) fn buffering(&self) -> (f64, f64) {
        let time = STREAM[1].saturating_since(STREAM[0]).as_secs_f64();
        let length = |pause: &Pause| {
            let end = pause.to.unwrap_or(STREAM[1]).min(STREAM[1]);
            end.saturating_since(pause.from).as_secs_f64() / time
        };
        let all = self.pauses.iter().map(length).sum();
        (all, self.pauses.iter().skip(1).map(length).sum())
    }

    /// Returns how often the buffer ran empty.
    pub(crate) fn rebuffered(&self) -> usize {
        self.pauses.iter().skip(1).filter(|pause| pause.from < STREAM[1]).count()
    }

    /// Returns for each packet of `made` whether it arrived; other arrivals are ignored.
    fn arrived(&self) -> Vec<bool> {
        let mut arrived = vec![false; self.made.len()];
        for packet in &self.received {
            if let Some(slot) = arrived.get_mut(packet.number as usize) {
                *slot = true;
            }
        }
        arrived
    }

    /// Returns the lost packets by place of loss.
    pub(crate) fn lost(&self) -> LossCounts {
        let (mut lost, mut run) = (LossCounts::default(), 0);
        for (made, arrived) in self.made.iter().zip(self.arrived()) {
            match (arrived, made.gone) {
                (true, _) => run = 0,
                (false, Some(SenderDrop::Full)) => lost.full += 1,
                (false, Some(SenderDrop::Choice)) => lost.choice += 1,
                (false, None) => lost.network += 1,
            }
            lost.marked += u64::from(made.marked && made.gone.is_some());
            if !arrived {
                run += 1;
                lost.runs += u64::from(run == 1);
                lost.bursts += u64::from(run == BURST);
                lost.longest = lost.longest.max(run);
            }
        }
        lost
    }

    /// Returns the lost packets per second of their creation.
    pub(crate) fn lost_by_second(&self) -> Vec<(f64, f64)> {
        let lost = self.made.iter().zip(self.arrived()).filter(|(_, arrived)| !arrived);
        by_second(lost.map(|(made, _)| (made.at, 1.0)))
    }

    /// Returns each packet's latency from hand-over to player in milliseconds, by arrival time.
    pub(crate) fn latencies(&self) -> Vec<(f64, f64)> {
        let age = |packet: &ReceivedPacket| 1e3 * packet.at.saturating_since(packet.made).as_secs_f64();
        self.received.iter().map(|packet| (seconds(packet.at), age(packet))).collect()
    }

    /// Returns the stream's rate in each second, in kbit/s.
    pub(crate) fn stream_by_second(&self) -> Vec<(f64, f64)> {
        by_second(self.received.iter().map(|packet| (packet.at, PACKET as f64 * 8e-3)))
    }

    /// Returns FTP's rate in each second, in kbit/s.
    pub(crate) fn ftp_by_second(&self) -> Vec<(f64, f64)> {
        by_second(self.ftp.iter().map(|&(at, bytes)| (at, bytes as f64 * 8e-3)))
    }

    /// Returns the mean rates of stream and FTP while both are active, in kbit/s.
    pub(crate) fn shares(&self) -> (f64, f64) {
        let both = STREAM[0]..FTP[1];
        let ftp: u64 = self.ftp.iter().filter(|(at, _)| both.contains(at)).map(|(_, bytes)| bytes).sum();
        (kbps(self.stream_bytes(&both), &both), kbps(ftp as f64, &both))
    }

    /// Returns the stream's mean rate from FTP's end to its own, in kbit/s.
    pub(crate) fn rate_after_ftp(&self) -> f64 {
        let after = FTP[1]..STREAM[1];
        kbps(self.stream_bytes(&after), &after)
    }

    /// Returns the stream's mean rate over its whole time, in kbit/s. What arrives after its end counts, too.
    pub(crate) fn mean_rate(&self) -> f64 {
        kbps((self.received.len() * PACKET) as f64, &(STREAM[0]..STREAM[1]))
    }

    /// Returns the stream's bytes that arrived in this time.
    fn stream_bytes(&self, time: &Range<Instant>) -> f64 {
        (self.received.iter().filter(|packet| time.contains(&packet.at)).count() * PACKET) as f64
    }
}

/// Returns the rate of these bytes over this time, in kbit/s.
fn kbps(bytes: f64, time: &Range<Instant>) -> f64 {
    bytes * 8e-3 / time.end.saturating_since(time.start).as_secs_f64()
}

/// Returns sums by second, from the first second to the last non-empty one.
fn by_second(what: impl Iterator<Item = (Instant, f64)>) -> Vec<(f64, f64)> {
    let mut sums = Vec::new();
    for (at, much) in what {
        let second = (at.as_nanos() / Duration::from_secs(1).as_nanos()) as usize;
        if sums.len() <= second {
            sums.resize(second + 1, 0.0);
        }
        sums[second] += much;
    }
    sums.into_iter().enumerate().map(|(second, sum)| (second as f64 + 0.5, sum)).collect()
}
