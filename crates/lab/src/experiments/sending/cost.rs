//! Costs of sending on this machine: rounds in which each way has its turn, so that whatever disturbs disturbs all.

use std::io;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

use super::sink::Sink;
use super::way::{Sender, Way};
use crate::experiment::{LabError, Progress};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    /// How.
    pub(crate) way: Way,
    /// Bytes of each packet.
    pub(crate) payload: usize,
}

/// What it costs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cost {
    /// What was measured.
    pub(crate) case: Case,
    /// Nanoseconds a packet in each round.
    pub(crate) rounds: Vec<f64>,
    /// The part of it that the kernel took, from 0 to 1.
    pub(crate) system: f64,
}

impl Cost {
    /// Nanoseconds a packet: the median round.
    pub(crate) fn median(&self) -> f64 {
        quantile(&self.rounds, 0.5)
    }

    /// In the kernel, of the median.
    pub(crate) fn in_kernel(&self) -> f64 {
        self.median() * self.system
    }

    /// The rounds' quartiles.
    pub(crate) fn quartiles(&self) -> (f64, f64) {
        (quantile(&self.rounds, 0.25), quantile(&self.rounds, 0.75))
    }

    /// How many times as much it costs as `other`: the median of the rounds' own ratios.
    pub(crate) fn over(&self, other: &Self) -> f64 {
        let ratios: Vec<f64> = self.rounds.iter().zip(&other.rounds).map(|(own, other)| own / other).collect();
        quantile(&ratios, 0.5)
    }
}

/// By nearest rank.
fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let rank = (share * sorted.len() as f64).ceil().max(1.0) as usize;
    sorted.get(rank - 1).copied().unwrap_or(f64::NAN)
}

/// How long it is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Effort {
    /// In each round every case has one turn.
    pub(crate) rounds: u32,
    /// Packets of a turn.
    pub(crate) packets: u32,
}

/// Packets before the first that count.
const WARM_UP: u32 = 2_000;

/// Measures all cases, in this thread.
///
/// # Errors
/// What the machine lacks.
pub(crate) fn measure(sink: &Sink, cases: &[Case], effort: Effort, progress: &Progress) -> Result<Vec<Cost>, LabError> {
    let task = progress.task(&format!("{} ways and sizes, in turn", cases.len()), u64::from(effort.rounds));
    let open = |case: &Case| Sender::open(case.way, case.payload).map_err(|error| LabError::Machine(error.to_string()));
    let senders: Result<Vec<Sender>, LabError> = sink.before(|| cases.iter().map(open).collect())?;
    let mut turns: Vec<_> = senders?.into_iter().map(|sender| Turns { sender, nanos: Vec::new(), kernel: 0 }).collect();
    let failed = LabError::system;
    for turns in &mut turns {
        turns.sender.send(WARM_UP).map_err(failed("send to the sink"))?;
    }
    for _ in 0..effort.rounds {
        for turns in &mut turns {
            turns.take(effort.packets).map_err(failed("send to the sink"))?;
        }
        task.step();
    }
    Ok(cases.iter().zip(&turns).map(|(case, turns)| turns.cost(*case, effort.packets)).collect())
}

struct Turns {
    sender: Sender,
    /// Nanoseconds a packet, of each turn.
    nanos: Vec<f64>,
    /// Nanoseconds in the kernel, of all turns.
    kernel: u64,
}

impl Turns {
    fn take(&mut self, packets: u32) -> io::Result<()> {
        let before = kernel_time()?;
        let sent = self.sender.send(packets)?;
        // Only what counts calls the kernel, so that all of this belongs to it.
        self.kernel += kernel_time()?.saturating_sub(before);
        self.nanos.push(sent.nanos as f64 / f64::from(sent.packets));
        Ok(())
    }

    fn cost(&self, case: Case, packets: u32) -> Cost {
        let all: f64 = self.nanos.iter().map(|nanos| nanos * f64::from(packets)).sum();
        Cost { case, rounds: self.nanos.clone(), system: (self.kernel as f64 / all).min(1.0) }
    }
}

/// What this thread has spent in the kernel, in nanoseconds. The kernel counts it by ticks: good in sums only.
fn kernel_time() -> io::Result<u64> {
    Ok(getrusage(UsageWho::RUSAGE_THREAD)?.system_time().num_microseconds() as u64 * 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_those_of_single_rounds() {
        let case = Case { way: Way::Send, payload: 0 };
        // The machine became twice as slow in the last two rounds.
        let own = Cost { case, rounds: vec![10.0, 10.0, 20.0, 20.0, 20.0], system: 0.5 };
        let other = Cost { case, rounds: vec![5.0, 5.0, 10.0, 10.0, 10.0], system: 0.5 };
        assert_eq!((own.over(&other), own.median(), own.in_kernel()), (2.0, 20.0, 10.0));
        assert_eq!(own.quartiles(), (10.0, 20.0));
    }
}
