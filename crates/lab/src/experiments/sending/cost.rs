//! Costs of sending on this machine, in rounds in which each way has a turn, so that other load
//! affects all alike.

use std::io;
use std::sync::mpsc;
use std::thread::{self, Scope, ScopedJoinHandle};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use timeous_testbed::machine::machine;

use super::method::{SendMethod, Sender};
use super::sink::Sink;
use crate::experiment::{Progress, RunError, Sorted};

/// Way and packet size to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    /// Way to send.
    pub(crate) way: SendMethod,
    /// Payload of each packet, in bytes.
    pub(crate) payload: usize,
}

/// Measured cost of a case.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cost {
    /// Measured case.
    pub(crate) case: Case,
    /// Nanoseconds per packet in each round.
    pub(crate) rounds: Vec<f64>,
    /// Share of kernel time, from 0 to 1; NaN if unknown.
    pub(crate) system: f64,
}

impl Cost {
    fn quantile(&self, percent: f64) -> f64 {
        self.rounds.iter().copied().collect::<Sorted>().percentile(percent)
    }

    /// Returns the nanoseconds per packet in the median round.
    pub(crate) fn median(&self) -> f64 {
        self.quantile(50.0)
    }

    /// Returns the kernel time of the median, in nanoseconds.
    pub(crate) fn in_kernel(&self) -> f64 {
        self.median() * self.system
    }

    /// Formats the quartiles over the rounds.
    pub(crate) fn between_quartiles(&self) -> String {
        format!("{:.0} to {:.0}", self.quantile(25.0), self.quantile(75.0))
    }

    /// Returns the ratio of this cost to `other`: the median of the rounds' own ratios.
    pub(crate) fn over(&self, other: &Self) -> f64 {
        let ratios = self.rounds.iter().zip(&other.rounds).map(|(own, other)| own / other);
        ratios.collect::<Sorted>().percentile(50.0)
    }
}

/// Length of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MeasurementLength {
    /// Rounds; in each, every case has one turn.
    pub(crate) rounds: u32,
    /// Packets per turn.
    pub(crate) packets: u32,
}

/// Uncounted packets at the start.
const WARM_UP: u32 = 2_000;

/// Measures all cases in turn, each in a thread of its own, since the kernel accounts its time by
/// thread.
///
/// # Errors
/// Missing features of the machine.
pub(crate) fn measure(
    sink: &Sink,
    cases: &[Case],
    effort: MeasurementLength,
    progress: &Progress,
) -> Result<Vec<Cost>, RunError> {
    let task = progress.task(&format!("{} ways and sizes, in turn", cases.len()), u64::from(effort.rounds));
    let open = |case: &Case| Sender::open(case.way, case.payload).map_err(machine);
    let senders: Result<Vec<Sender>, RunError> = sink.before(|| cases.iter().map(open).collect())?;
    thread::scope(|scope| {
        let start = |(sender, case): (Sender, &Case)| Worker::start(scope, sender, case.way);
        let workers: Vec<Worker<'_>> = senders?.into_iter().zip(cases).map(start).collect();
        workers.iter().try_for_each(|worker| worker.turn(WARM_UP).map(drop))?;
        let mut rounds = vec![Vec::new(); cases.len()];
        for _ in 0..effort.rounds {
            for (worker, rounds) in workers.iter().zip(&mut rounds) {
                rounds.push(worker.turn(effort.packets)?);
            }
            task.step();
        }
        let cost = |((worker, rounds), case): ((Worker<'_>, Vec<f64>), &Case)| {
            let all = rounds.iter().sum::<f64>() * f64::from(effort.packets);
            let system = worker.end()?.map_or(f64::NAN, |kernel| (kernel as f64 / all).min(1.0));
            Ok(Cost { case: *case, rounds, system })
        };
        workers.into_iter().zip(rounds).zip(cases).map(cost).collect()
    })
}

/// Thread with a sender.
struct Worker<'scope> {
    turns: mpsc::Sender<u32>,
    costs: mpsc::Receiver<io::Result<f64>>,
    thread: ScopedJoinHandle<'scope, io::Result<Option<u64>>>,
}

impl<'scope> Worker<'scope> {
    fn start<'env>(scope: &'scope Scope<'scope, 'env>, mut sender: Sender, way: SendMethod) -> Self {
        let (turns, packets) = mpsc::channel();
        let (cost, costs) = mpsc::channel();
        let work = move || {
            while let Ok(packets) = packets.recv() {
                let sent = sender.send(packets);
                let nanos = sent.map(|sent| sent.nanos as f64 / f64::from(sent.packets));
                if cost.send(nanos).is_err() {
                    break;
                }
            }
            // With a second thread, this thread's kernel time is only part of it.
            if way == SendMethod::Thread { Ok(None) } else { kernel_time().map(Some) }
        };
        Self { turns, costs, thread: scope.spawn(work) }
    }

    /// Lets it send, and returns the nanoseconds per packet.
    fn turn(&self, packets: u32) -> Result<f64, RunError> {
        self.turns.send(packets).expect("a worker waits for its turns");
        let cost = self.costs.recv().expect("a worker answers each turn");
        cost.map_err(RunError::system("send to the sink"))
    }

    /// Ends the thread; returns its kernel time. Only the measured code makes system calls, so all
    /// of it is due to sending.
    fn end(self) -> Result<Option<u64>, RunError> {
        drop(self.turns);
        self.thread.join().expect("a worker does not panic").map_err(RunError::system("ask for a thread's times"))
    }
}

/// Returns this thread's kernel time in nanoseconds. The kernel counts in ticks: only sums are
/// accurate.
fn kernel_time() -> io::Result<u64> {
    Ok(getrusage(UsageWho::RUSAGE_THREAD)?.system_time().num_microseconds() as u64 * 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_those_of_single_rounds() {
        let case = Case { way: SendMethod::Send, payload: 0 };
        // The machine became twice as slow in the last three rounds.
        let own = Cost { case, rounds: vec![10.0, 10.0, 20.0, 20.0, 20.0], system: 0.5 };
        let other = Cost { case, rounds: vec![5.0, 5.0, 10.0, 10.0, 10.0], system: 0.5 };
        assert_eq!((own.over(&other), own.median(), own.in_kernel()), (2.0, 20.0, 10.0));
        assert_eq!(own.between_quartiles(), "10 to 20");
    }
}
