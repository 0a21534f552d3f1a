//! What came of a run, and what is reckoned from it.

use timeous::core::{Duration, Instant};

use super::super::goddard::message::PACKET;
use super::super::goddard::player::{Pause, Received};
use super::super::goddard::server::{Gone, Made, Switch};
use super::apart::Apart;
use super::setup::{FTP, STREAM, Way};

/// What came of a run.
pub(crate) struct Outcome {
    pub(crate) apart: Apart,
    pub(crate) way: Way,
    pub(crate) rtt: u64,
    pub(crate) made: Vec<Made>,
    pub(crate) switches: Vec<Switch>,
    pub(crate) received: Vec<Received>,
    pub(crate) pauses: Vec<Pause>,
    /// When so many bytes of FTP could be read.
    pub(crate) ftp: Vec<(Instant, u64)>,
}

/// Where a lost packet was lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Lost {
    /// It found the send buffer full.
    pub(crate) full: u64,
    /// Late choice gave it up.
    pub(crate) choice: u64,
    /// Under way.
    pub(crate) network: u64,
    /// Runs of ten packets and more that were lost one after the other.
    pub(crate) bursts: u64,
    /// The longest run.
    pub(crate) longest: u64,
    /// Marked packets that found the send buffer full, or were given up.
    pub(crate) marked: u64,
}

impl Lost {
    pub(crate) fn all(&self) -> u64 {
        self.full + self.choice + self.network
    }
}

/// A run that is long enough to be called a burst.
const BURST: u64 = 10;

fn seconds(at: Instant) -> f64 {
    at.saturating_since(Instant::ZERO).as_secs_f64()
}

impl Outcome {
    /// The time spent buffering, of that of the stream: all of it, and without the first.
    pub(crate) fn buffering(&self) -> (f64, f64) {
        let time = STREAM[1].saturating_since(STREAM[0]).as_secs_f64();
        let length = |pause: &Pause| {
            let end = pause.to.unwrap_or(STREAM[1]).min(STREAM[1]);
            end.saturating_since(pause.from).as_secs_f64() / time
        };
        let all = self.pauses.iter().map(length).sum();
        (all, self.pauses.iter().skip(1).map(length).sum())
    }

    /// How often the buffer ran empty.
    pub(crate) fn rebuffered(&self) -> usize {
        self.pauses.iter().skip(1).filter(|pause| pause.from < STREAM[1]).count()
    }

    /// The packets that came late enough made not to count, left out: those made while the stream was on.
    fn arrived(&self) -> Vec<bool> {
        let mut arrived = vec![false; self.made.len()];
        for packet in &self.received {
            if let Some(slot) = arrived.get_mut(packet.number as usize) {
                *slot = true;
            }
        }
        arrived
    }

    /// What was lost, and where.
    pub(crate) fn lost(&self) -> Lost {
        let (mut lost, mut run) = (Lost::default(), 0);
        for (made, arrived) in self.made.iter().zip(self.arrived()) {
            match (arrived, made.gone) {
                (true, _) => run = 0,
                (false, Some(Gone::Full)) => lost.full += 1,
                (false, Some(Gone::Choice)) => lost.choice += 1,
                (false, None) => lost.network += 1,
            }
            lost.marked += u64::from(made.marked && made.gone.is_some());
            if !arrived {
                run += 1;
                lost.bursts += u64::from(run == BURST);
                lost.longest = lost.longest.max(run);
            }
        }
        lost
    }

    /// Lost packets in each second, by when they were made.
    pub(crate) fn lost_by_second(&self) -> Vec<(f64, f64)> {
        let lost = self.made.iter().zip(self.arrived()).filter(|(_, arrived)| !arrived);
        by_second(lost.map(|(made, _)| (made.at, 1.0)))
    }

    /// How long each packet was under way from its hand-over to its player, in milliseconds, by when it came.
    pub(crate) fn latencies(&self) -> Vec<(f64, f64)> {
        let age = |packet: &Received| 1e3 * packet.at.saturating_since(packet.made).as_secs_f64();
        self.received.iter().map(|packet| (seconds(packet.at), age(packet))).collect()
    }

    /// kbit/s of the stream in each second.
    pub(crate) fn stream_by_second(&self) -> Vec<(f64, f64)> {
        by_second(self.received.iter().map(|packet| (packet.at, PACKET as f64 * 8e-3)))
    }

    /// kbit/s of FTP in each second.
    pub(crate) fn ftp_by_second(&self) -> Vec<(f64, f64)> {
        by_second(self.ftp.iter().map(|&(at, bytes)| (at, bytes as f64 * 8e-3)))
    }

    /// kbit/s of the stream and of FTP in the mean, while both are there.
    pub(crate) fn shares(&self) -> (f64, f64) {
        let both = STREAM[0]..FTP[1];
        let time = both.end.saturating_since(both.start).as_secs_f64();
        let stream = self.received.iter().filter(|packet| both.contains(&packet.at)).count() as f64 * PACKET as f64;
        let ftp: u64 = self.ftp.iter().filter(|(at, _)| both.contains(at)).map(|(_, bytes)| bytes).sum();
        (stream * 8e-3 / time, ftp as f64 * 8e-3 / time)
    }

    /// kbit/s of the stream in the mean of all its time.
    pub(crate) fn mean_rate(&self) -> f64 {
        let time = STREAM[1].saturating_since(STREAM[0]).as_secs_f64();
        self.received.len() as f64 * PACKET as f64 * 8e-3 / time
    }
}

/// Sums by second, from the first of all to the last that there is anything in.
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
