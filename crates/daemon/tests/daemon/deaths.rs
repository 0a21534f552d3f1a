//! Tests of clients that are killed at any time.

use std::io::{BufReader, Read};

use timeous_core::{Duration, Rng};
use timeous_engine::clock;
use timeous_ipc::OpenFlow;

use crate::roles::{FLOWS, argument};
use crate::sender::Sender;
use crate::support::{Host, PATIENCE, is_root, pause, view};
use crate::users::Guard;

/// Number of killed clients.
const DEATHS: usize = 100;

#[test]
fn a_hundred_clients_killed_in_mid_send_leave_nothing_behind_and_nobody_feels_it() {
    let host = Host::start();
    let mut client = host.client();
    let flow = client.open(OpenFlow::to([192, 0, 2, 1].into(), 1_000)).unwrap();
    let mut rng = Rng::from_seed(4);
    let mut sender = Sender::new(&mut client, &[flow], 1_000);
    // Warm-up: one-time allocations of the first clients are not counted.
    for _ in 0..5 {
        live_and_die(&host, &mut rng, &mut sender);
    }
    pause(Duration::from_millis(200));
    let (descriptors, memory) = (host.descriptors(), host.resident());
    for _ in 0..DEATHS {
        live_and_die(&host, &mut rng, &mut sender);
    }
    sender.run(clock::now() + Duration::from_millis(200));
    assert!(!sender.lost);
    // With eleven flows, each gets a part of the rate: less than alone, but never nothing.
    let longest = sender.longest_pause();
    assert!(longest < Duration::from_secs(1), "nothing of this client arrived for {longest:?}");
    drop(sender);
    // The daemon reacts within a second; a busy machine may take longer to kill the process.
    let began = clock::now();
    host.until("the dead are forgotten", || view(&mut client).clients.len() == 1);
    let took = clock::now().saturating_since(began);
    // Data in flight of killed clients may fill the path's queues for a while, and counts until then.
    host.until("what the dead had outstanding is outstanding no more", || {
        view(&mut client).macroflows.iter().all(|macroflow| {
            let of_flows: u64 = macroflow.flows.iter().map(|flow| flow.outstanding_bytes).sum();
            macroflow.outstanding_bytes == of_flows
        })
    });
    let seen = view(&mut client);
    let flows: Vec<_> = seen.macroflows.iter().flat_map(|macroflow| &macroflow.flows).collect();
    assert_eq!(flows.len(), 1, "the flow of this client");
    for macroflow in &seen.macroflows {
        let grants: u32 = macroflow.flows.iter().map(|flow| flow.grants).sum();
        assert_eq!(macroflow.grants, grants);
    }
    host.until("descriptors are closed", || host.descriptors() <= descriptors);
    let grown = host.resident().saturating_sub(memory);
    println!(
        "{DEATHS} deaths: {grown} bytes more, {took:?} until the last is forgotten, at most {longest:?} without an arrival"
    );
    assert!(grown < 4 << 20, "{grown} bytes more than before");
}

/// Starts another process that sends through ten flows to the same host as the same user, and kills it at a random
/// time.
fn live_and_die(host: &Host, rng: &mut Rng, sender: &mut Sender<'_>) {
    let mut other = Guard(host.spawn("sender", &[(FLOWS, "10".to_owned())]));
    let mut says = BufReader::new(other.0.stdout.take().unwrap());
    // It has begun to send.
    Guard::arrived(&mut says);
    sender.run(clock::now() + Duration::from_micros(5_000 + rng.below(40_000)));
    other.0.kill().unwrap();
    sender.run(clock::now() + Duration::from_millis(5));
    // Waits until the kernel has closed all its descriptors.
    let mut rest = Vec::new();
    says.read_to_end(&mut rest).unwrap();
}

/// Prints the rates of other clients before, while and after clients die; it checks nothing.
#[test]
#[ignore = "measures for a minute"]
fn rates_of_the_others() {
    let host = Host::start();
    let mut client = host.client();
    let flow = client.open(OpenFlow::to([192, 0, 2, 2].into(), 1_000)).unwrap();
    let mut sender = Sender::new(&mut client, &[flow], 1_000);
    let mut rng = Rng::from_seed(4);
    sender.run(clock::now() + Duration::from_secs(3));
    let mut rate = |sender: &mut Sender<'_>, deaths: usize| {
        let (began, before) = (clock::now(), sender.arrived());
        if deaths == 0 {
            sender.run(began + Duration::from_secs(8));
        }
        for _ in 0..deaths {
            live_and_die(&host, &mut rng, sender);
        }
        (sender.arrived() - before) as f64 * 8.0 / clock::now().saturating_since(began).as_secs_f64() / 1e6
    };
    let (before, during, after) = (rate(&mut sender, 0), rate(&mut sender, 100), rate(&mut sender, 0));
    println!("Mbit/s of a client to another host: {before:.3} before, {during:.3} while 100 die, {after:.3} after");
    let root = if is_root() { "as root" } else { "as a user" };
    println!("({root}; patience {PATIENCE:?}, {} deaths)", argument("DEATHS", 100));
}
