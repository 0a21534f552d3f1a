//! The binary `timeous-soak`: a stream over kernel TCP through loss and reordering, with every byte checked.

mod sender;
mod setup;
mod tally;

use std::process::ExitCode;
use std::thread;

use clap::Parser;
use serde::Serialize;
use setup::TestSetup;
use tally::{Counts, Faults, Received};
use timeous_core::units::{parse_duration, parse_rate, parse_share};
use timeous_core::{Duration, Rate, Rng};
use timeous_engine::{Reach, ReceiveHalf, Status, clock};
use timeous_net::LinkConfig;
use timeous_net::link::{Capacity, Limit, Loss, Reorder};
use timeous_testbed::RunError;

/// Link delay, each way.
const DELAY: Duration = Duration::from_millis(20);
/// Additional delay of a packet that is overtaken.
const OVERTAKEN: Duration = Duration::from_millis(5);

/// Streams over the kernel's TCP through loss and reordering, and checks every byte that is delivered
///
/// Datagrams have random lengths and deadlines, and are written anew while they wait; late choice reaches into
/// retransmissions. Exit code 1: one that was delivered is none that was offered, came twice, or has a wrong fate.
/// Needs root and iproute2.
#[derive(Clone, Debug, Parser)]
#[command(name = "timeous-soak", version)]
struct SoakArgs {
    /// Duration, such as 60min
    #[arg(long = "for", value_name = "TIME", default_value = "60min", value_parser = parse_duration)]
    lasting: Duration,
    /// Mean offered rate and link rate: with headers and retransmissions, slightly more than the link can carry
    #[arg(long, value_name = "RATE", default_value = "2M", value_parser = parse_rate)]
    rate: Rate,
    /// Share of packets lost on the link
    #[arg(long, value_name = "SHARE", default_value = "2%", value_parser = parse_share)]
    loss: f64,
    /// Share of packets that are overtaken by others
    #[arg(long, value_name = "SHARE", default_value = "2%", value_parser = parse_share)]
    reorder: f64,
    /// Seed of all randomness
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Result of a soak test.
#[derive(Debug, Serialize)]
struct Outcome {
    seconds: f64,
    seed: u64,
    counts: Counts,
    /// Records with a wrong checksum, and duplicates, which the receiver withheld from its application.
    refused: u64,
    duplicates: u64,
    /// Datagrams in the kernel's send queue that were replaced by a fresh one, or by padding.
    replaced: u64,
    padded: u64,
    /// Whether late choice always reached the kernel's retransmissions.
    into_retransmissions: bool,
    /// Counters of the link.
    link_packets: u64,
    link_losses: u64,
    link_reordered: u64,
    faults: Faults,
}

fn main() -> ExitCode {
    let args = SoakArgs::parse();
    let outcome = match soak(&args) {
        Ok(outcome) => outcome,
        Err(error) => {
            eprintln!("timeous-soak: {error}");
            return ExitCode::from(error.exit_code());
        }
    };
    if args.json {
        println!("{}", serde_json::to_string_pretty(&outcome).expect("numbers can be written"));
    } else {
        print(&outcome);
    }
    ExitCode::from(u8::from(outcome.faults.any()))
}

fn soak(args: &SoakArgs) -> Result<Outcome, RunError> {
    let forward = LinkConfig {
        capacity: Capacity::Fixed(args.rate),
        queue: Limit::Packets(20),
        delay: DELAY,
        loss: Loss::Bernoulli { p: args.loss },
        reorder: Reorder { share: args.reorder, by: Some(OVERTAKEN) },
        ..LinkConfig::default()
    };
    let back = LinkConfig::with_delay(DELAY).with_loss(Loss::Bernoulli { p: args.loss });
    let mut rng = Rng::from_seed(args.seed);
    let began = clock::now();
    let (scene, ends) = TestSetup::make(forward, back, rng.next_u64())?;
    let (mut sending, mut receiving, _held) = ends.split();
    let (offered, view, (received, arrived)) = thread::scope(|scope| {
        let receiver = scope.spawn(move || (receive(&mut receiving), receiving.snapshot().transport));
        let offered = sender::run(&mut sending, args.rate, args.lasting, &mut rng);
        let view = sending.snapshot().tcp.unwrap_or_default();
        // Also after an error, the receiver must be told of the end.
        drop(sending);
        (offered, view, receiver.join().expect("the receiver does not panic"))
    });
    let (counts, faults) = tally::judge(&offered?, &received);
    let link = scene.end()?;
    Ok(Outcome {
        seconds: (clock::now() - began).as_secs_f64(),
        seed: args.seed,
        counts,
        refused: arrived.malformed,
        duplicates: arrived.duplicates,
        replaced: view.replaced,
        padded: view.padded,
        into_retransmissions: view.reach == Reach::Retransmissions,
        link_packets: link.packets_in,
        link_losses: link.losses,
        link_reordered: link.reordered,
        faults,
    })
}

/// Checks received datagrams until the stream ends.
fn receive(receiving: &mut ReceiveHalf) -> Received {
    let mut received = Received::default();
    loop {
        // Read before the data, so that data received before the end are checked.
        let status = receiving.status();
        while let Some(datagram) = receiving.poll_received() {
            match tally::check(&datagram.bytes) {
                Some(name) => received.names.push(name),
                None => received.damaged += 1,
            }
        }
        if matches!(status, Status::Closed(_)) {
            return received;
        }
        receiving.wait(None);
    }
}

fn print(outcome: &Outcome) {
    let Outcome { counts, faults, .. } = outcome;
    println!("{:.0} s, seed {}", outcome.seconds, outcome.seed);
    println!("offered    {:>9}, {} of them written anew while they waited", counts.offered, counts.rewritten);
    println!("fates      {:>9} acked, {} lost, {} dropped", counts.acked, counts.lost, counts.dropped);
    println!("delivered  {:>9}, every byte checked", counts.delivered);
    println!(
        "in the kernel {:>6} replaced by a fresh one, {} by padding; into retransmissions: {}",
        outcome.replaced, outcome.padded, outcome.into_retransmissions
    );
    println!("kept back  {:>9} damaged records, {} duplicates", outcome.refused, outcome.duplicates);
    println!(
        "link       {:>9} packets, {} lost, {} overtaken",
        outcome.link_packets, outcome.link_losses, outcome.link_reordered
    );
    println!(
        "faults     {:>9} damaged, {} unknown, {} twice, {} missing, {} delivered and told as dropped, {} wrong fates",
        faults.damaged, faults.unknown, faults.twice, faults.missing, faults.ghosts, faults.fates
    );
}
