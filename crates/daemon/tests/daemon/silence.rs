//! Tests of a client that is stopped by a signal while its data is in flight, and goes on later.

use std::io::BufReader;

use rustix::process::{Pid, Signal, kill_process};
use timeous_core::Duration;
use timeous_engine::clock;
use timeous_ipc::{Client, OpenFlow};

use crate::roles::FLOWS;
use crate::sender::Sender;
use crate::support::{Host, view};
use crate::users::Guard;

#[test]
fn a_stopped_client_gives_the_window_to_the_other_and_takes_part_again_when_it_goes_on() {
    let host = Host::start();
    let mut client = host.client();
    let flow = client.open(OpenFlow::to([192, 0, 2, 1].into(), 1_000)).unwrap();
    let mut other = Guard(host.spawn("sender", &[(FLOWS, "10".to_owned())]));
    let mut says = BufReader::new(other.0.stdout.take().unwrap());
    Guard::arrived(&mut says);
    let signal = |signal| kill_process(Pid::from_child(&other.0), signal).unwrap();
    // This client's flow was opened first.
    let in_flight_of_the_other = |client: &mut Client| -> u64 {
        let seen = view(client);
        let flows = seen.macroflows.iter().flat_map(|macroflow| &macroflow.flows);
        let own = flows.clone().map(|flow| flow.id).min();
        flows.filter(|flow| Some(flow.id) != own).map(|flow| flow.outstanding_bytes).sum()
    };
    let mut observer = host.client();
    let mut sender = Sender::new(&mut client, &[flow], 1_000);
    let mut rate = |seconds| {
        let before = sender.arrived();
        sender.run(clock::now() + Duration::from_secs(seconds));
        assert!(!sender.lost);
        (sender.arrived() - before) / seconds
    };
    let beside = rate(2);
    signal(Signal::STOP);
    assert!(in_flight_of_the_other(&mut observer) > 0);
    // Two seconds in which feedback may be gathered, and a timeout.
    rate(4);
    assert_eq!(in_flight_of_the_other(&mut observer), 0);
    let alone = rate(2);
    signal(Signal::CONT);
    let again = rate(2);
    println!("bytes a second: {beside} beside the other client, {alone} while it is stopped, {again} when it goes on");
    assert!(alone > 2 * beside && again < alone);
    assert!(in_flight_of_the_other(&mut observer) > 0, "it takes part again");
}
