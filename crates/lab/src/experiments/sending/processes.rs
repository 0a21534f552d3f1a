//! Many processes that send concurrently, each by one way and at full speed.

use timeous_testbed::machine::machine;
use timeous_testbed::process::Member;

use super::cost::Case;
use super::method::{SendMethod, Sender};
use super::sink::Sink;
use crate::experiment::RunError;

/// Hidden command that runs a member; it is no experiment.
pub(crate) const COMMAND: &str = "crowd-member";

/// Arguments of a member: the sink's name, the way, its number, the payload and the packets.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct MemberArgs {
    sink: String,
    way: String,
    number: u32,
    payload: usize,
    packets: u32,
}

fn words(way: SendMethod) -> (&'static str, u32) {
    match way {
        SendMethod::Send => ("send", 1),
        SendMethod::Ring { every } => ("ring", every),
        SendMethod::RingWithCopy { every } => ("ring-with-copy", every),
        SendMethod::Thread => ("thread", 1),
        SendMethod::Bundles { of } => ("bundles", of),
    }
}

fn way(word: &str, number: u32) -> Option<SendMethod> {
    match word {
        "send" => Some(SendMethod::Send),
        "ring" => Some(SendMethod::Ring { every: number }),
        "ring-with-copy" => Some(SendMethod::RingWithCopy { every: number }),
        "thread" => Some(SendMethod::Thread),
        "bundles" => Some(SendMethod::Bundles { of: number }),
        _ => None,
    }
}

/// Runs a member: reports that it is ready, waits for a line on standard input, sends, and reports
/// the nanoseconds per packet.
///
/// # Errors
/// Missing features of the machine.
pub(crate) fn member(args: &MemberArgs) -> Result<(), RunError> {
    let way = way(&args.way, args.number).ok_or_else(|| RunError::Machine(format!("there is no way {}", args.way)))?;
    let sink = Sink::enter(&args.sink)?;
    let opened = sink.before(|| Sender::open(way, args.payload))?;
    let mut sender = opened.map_err(machine)?;
    println!("ready");
    let mut word = String::new();
    std::io::stdin().read_line(&mut word).map_err(RunError::system("wait for the others"))?;
    let sent = sender.send(args.packets).map_err(RunError::system("send to the sink"))?;
    println!("{}", sent.nanos as f64 / f64::from(sent.packets));
    Ok(())
}

/// Runs `members` processes concurrently; returns their mean nanoseconds per packet.
///
/// # Errors
/// A process that cannot be started, or that failed.
pub(crate) fn crowd(sink: &Sink, case: Case, members: usize, packets: u32) -> Result<f64, RunError> {
    let (way, number) = words(case.way);
    let arguments = [number.to_string(), case.payload.to_string(), packets.to_string()];
    let arguments = [&[sink.name().to_owned(), way.to_owned()][..], &arguments].concat();
    let mut crowd = (0..members).map(|_| Member::start(COMMAND, &arguments)).collect::<Result<Vec<_>, _>>()?;
    crowd.iter_mut().try_for_each(|member| member.hear().map(drop))?;
    // All members are ready: starting them one after another takes less time than one of them needs
    // to begin.
    crowd.iter_mut().try_for_each(Member::go)?;
    let costs = crowd.iter_mut().map(|member| member.hear()?.parse::<f64>().map_err(machine));
    Ok(costs.sum::<Result<f64, RunError>>()? / members as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_has_a_word() {
        for own in [
            SendMethod::Send,
            SendMethod::Ring { every: 4 },
            SendMethod::RingWithCopy { every: 2 },
            SendMethod::Thread,
            SendMethod::Bundles { of: 16 },
        ] {
            let (word, number) = words(own);
            assert_eq!(way(word, number), Some(own));
        }
        assert_eq!(way("pigeon", 1), None);
    }
}
