//! Many processes that send concurrently, each by one way and at full speed.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

use timeous_testbed::machine::machine;

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
    let mut crowd = Vec::new();
    for _ in 0..members {
        crowd.push(SenderProcess::start(sink, case, packets)?);
    }
    for member in &mut crowd {
        member.hear()?;
    }
    // All members are ready: starting them one after another takes less time than one of them needs
    // to begin.
    for member in &mut crowd {
        member.go()?;
    }
    let mut sum = 0.0;
    for member in &mut crowd {
        sum += member
            .hear()?
            .trim()
            .parse::<f64>()
            .map_err(|error| RunError::Machine(format!("a process of many: {error}")))?;
    }
    Ok(sum / members as f64)
}

/// Member process, ended on drop.
struct SenderProcess {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<std::process::ChildStdout>,
}

impl SenderProcess {
    fn start(sink: &Sink, case: Case, packets: u32) -> Result<Self, RunError> {
        let failed = RunError::system;
        let own = std::env::current_exe().map_err(failed("find this program"))?;
        let (way, number) = words(case.way);
        let numbers = [number.to_string(), case.payload.to_string(), packets.to_string()];
        let mut child = Command::new(own)
            .args([COMMAND, sink.name(), way])
            .args(numbers)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed("start one of many processes"))?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("its output is piped"));
        Ok(Self { child, input, output })
    }

    fn hear(&mut self) -> Result<String, RunError> {
        let mut line = String::new();
        self.output.read_line(&mut line).map_err(RunError::system("hear one of many processes"))?;
        if line.is_empty() {
            Err(RunError::Machine("one of many processes ended too early".to_owned()))
        } else {
            Ok(line)
        }
    }

    fn go(&mut self) -> Result<(), RunError> {
        let input = self.input.as_mut().expect("its input is piped");
        input.write_all(b"go\n").map_err(RunError::system("tell one of many processes"))
    }
}

impl Drop for SenderProcess {
    fn drop(&mut self) {
        drop(self.input.take());
        // It ends by itself; a failed one has reported its error.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
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
