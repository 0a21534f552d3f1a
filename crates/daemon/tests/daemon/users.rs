//! Tests of isolation between users: no shared path state, and no access to others' flows and streams.

use std::io::{BufRead, BufReader};
use std::process::Child;

use timeous_core::Duration;
use timeous_daemon::view::Macroflow;
use timeous_engine::clock;
use timeous_ipc::OpenFlow;
use timeous_ipc::messages::Failure;
use timeous_ipc::{Client, ClientError};

use crate::roles::{LIES, TRUSTED};
use crate::sender::Sender;
use crate::streams::spec;
use crate::support::{Host, USER, is_root, pause, skip, view};

const ALICE: u32 = 61_001;
const BOB: u32 = 61_002;

/// A process that is killed when this is dropped.
pub(crate) struct Guard(pub(crate) Child);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Guard {
    /// Returns the number of bytes that have arrived for a sender until now, from its output.
    pub(crate) fn arrived(lines: &mut impl BufRead) -> u64 {
        let mut line = String::new();
        while lines.read_line(&mut line).unwrap() > 0 {
            if let Some(bytes) = line.trim().strip_prefix("arrived ") {
                return bytes.parse().unwrap();
            }
            line.clear();
        }
        panic!("the sender has ended");
    }
}

fn of(client: &mut Client, user: u32) -> Vec<Macroflow> {
    let seen = view(client);
    seen.macroflows.into_iter().filter(|macroflow| macroflow.user == Some(user)).collect()
}

#[test]
fn a_user_who_lies_gains_nothing_and_two_others_lose_nothing() {
    if !is_root() {
        return skip("a_user_who_lies_gains_nothing_and_two_others_lose_nothing", "it needs root to be several users");
    }
    let host = Host::start();
    let mut root = host.client();
    let user = |uid: u32, claim: u32| [(USER, uid.to_string()), (LIES, claim.to_string())];
    // One user reports twice the delivered bytes, the other the true number. Root is the third user.
    let mut bob = Guard(host.spawn("sender", &user(BOB, 2_000)));
    let mut alice = Guard(host.spawn("sender", &user(ALICE, 1_000)));
    let mut alice_says = BufReader::new(alice.0.stdout.take().unwrap());
    let mut bob_says = BufReader::new(bob.0.stdout.take().unwrap());
    let flow = root.open(OpenFlow::to([192, 0, 2, 1].into(), 1_000)).unwrap();
    let mut sender = Sender::new(&mut root, &[flow], 1_000);
    // Counted from when both have begun: a busy machine starts one of them later.
    let mut arrived = || (Guard::arrived(&mut alice_says), Guard::arrived(&mut bob_says));
    let (began, mut heard) = (arrived(), (0, 0));
    // Two seconds, and more where one of them did not get its turns on the machine.
    for round in 0..1_000 {
        sender.run(clock::now() + Duration::from_millis(20));
        let now = arrived();
        heard = (now.0 - began.0, now.1 - began.1);
        if round >= 100 && heard.1 * 10 <= heard.0 * 11 {
            break;
        }
    }
    let third = sender.arrived();
    println!("arrived: {} with the truth, {} with the lie, {third} of the third user", heard.0, heard.1);
    let [hers, his, roots] = [ALICE, BOB, 0].map(|uid| of(&mut root, uid));
    assert_eq!([&hers, &his, &roots].map(Vec::len), [1, 1, 1], "each has a macroflow of its own to one host");
    assert!(hers[0].totals.refused_total == 0 && roots[0].totals.refused_total == 0);
    assert!(his[0].totals.refused_total > 0, "lies are refused");
    // Each user has a path of 8 Mbit/s: a false report does not increase the rate.
    assert!(heard.1 * 10 <= heard.0 * 11, "no more of his arrives");
}

#[test]
fn a_user_sees_and_changes_what_is_its_own() {
    if !is_root() {
        return skip("a_user_sees_and_changes_what_is_its_own", "it needs root to be several users");
    }
    let host = Host::start();
    let mut root = host.client();
    let to = OpenFlow::to([192, 0, 2, 1].into(), 1_000);
    let mine = root.open(to).unwrap();
    let options = host.options();
    // The kernel keeps user ids per thread.
    let alice = std::thread::spawn(move || {
        rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(ALICE)).unwrap();
        let mut client = Client::connect(options).unwrap();
        let hers = client.open(to).unwrap();
        let seen = view(&mut client);
        assert_eq!(seen.macroflows.len(), 1);
        assert_eq!(seen.macroflows[0].user, Some(ALICE));
        // Her first flow has the same handle as root's first flow, but is a separate one.
        client.close(hers).unwrap();
        assert!(view(&mut client).macroflows.iter().all(|macroflow| macroflow.flows.is_empty()));
        // A privileged port is refused.
        let refused = client.listen("127.0.0.1:99".parse().unwrap(), spec());
        assert!(matches!(refused, Err(ClientError::Failed(Failure::NotPermitted))), "{refused:?}");
        client
    });
    let client = alice.join().unwrap();
    assert_eq!(of(&mut root, 0)[0].flows.len(), 1, "root's is there still");
    root.query(mine).unwrap();
    drop(client);
    pause(Duration::from_millis(5));
    root.query(mine).unwrap();
}

#[test]
fn the_flows_of_a_user_who_is_trusted_are_the_hosts() {
    if !is_root() {
        return skip("the_flows_of_a_user_who_is_trusted_are_the_hosts", "it needs root to be several users");
    }
    let host = Host::start();
    let to = OpenFlow::to([192, 0, 2, 1].into(), 1_000);
    let join = |uid: u32| {
        let options = host.options();
        let client = move || {
            rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(uid)).unwrap();
            let mut client = Client::connect(options).unwrap();
            client.open(to).unwrap();
            client
        };
        std::thread::spawn(client).join().unwrap()
    };
    let [mut first, _second, mut alice] = [TRUSTED, TRUSTED, ALICE].map(join);
    let owners =
        |client: &mut Client| view(client).macroflows.iter().map(|of| (of.user, of.flows.len())).collect::<Vec<_>>();
    assert_eq!(owners(&mut host.client()), [(None, 2), (Some(ALICE), 1)]);
    assert_eq!(owners(&mut first), [(None, 2)], "who shares with the host sees what is shared");
    assert_eq!(owners(&mut alice), [(Some(ALICE), 1)]);
}

#[test]
fn another_source_address_is_another_uplink() {
    let host = Host::start();
    let mut client = host.client();
    let to = OpenFlow::to([192, 0, 2, 1].into(), 1_000);
    let second = OpenFlow { source: Some([192, 0, 2, 99].into()), ..to };
    let [first, other, third] = [to, second, second].map(|open| client.open(open).unwrap());
    let mut sources: Vec<_> = view(&mut client).macroflows.iter().map(|one| (one.source, one.flows.len())).collect();
    sources.sort();
    assert_eq!(sources, [(None, 1), (second.source, 2)]);
    [first, other, third].into_iter().for_each(|flow| client.close(flow).unwrap());
}
