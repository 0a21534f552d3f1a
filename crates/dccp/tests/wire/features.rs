//! Property test: two ends negotiate over a network with loss, reordering and duplication, until they agree.

use proptest::collection::vec;
use proptest::prelude::*;
use timeous_dccp::{Feature, Features, Location, OptionList, PacketType, Role, Seq};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Who {
    Client,
    Server,
}

#[derive(Clone, Debug)]
enum Event {
    Propose(Who, Feature, Location, Vec<u64>),
    Prefer(Who, Feature, Location, Vec<u64>),
    Retransmit(Who),
    Send(Who),
    /// One of the packets on the way arrives; it stays, so that it may arrive again.
    Arrive(Who, prop::sample::Index),
}

struct End {
    features: Features,
    next: Seq,
    gsr: Seq,
    /// Packets on the way to this end.
    inbox: Vec<(Seq, Seq, OptionList)>,
}

impl End {
    fn send(&mut self, to: &mut Self) {
        let mut options = OptionList::new();
        self.features.poll_options(self.next, PacketType::Ack, &mut options);
        to.inbox.push((self.next, self.gsr, options));
        self.next = self.next.next();
    }

    fn arrive(&mut self, at: usize) {
        let (seq, ack, options) = self.inbox[at].clone();
        self.gsr = self.gsr.max(seq);
        self.features.begin_packet(seq, Some(ack));
        for item in options.iter(PacketType::Ack) {
            let item = item.unwrap();
            self.features.on_option(&item.opt, item.mandatory).expect("two sound ends never break the rules");
        }
        self.features.on_ack(ack);
    }
}

fn any_wish() -> impl Strategy<Value = (Feature, Location, Vec<u64>)> {
    let location = || prop_oneof![Just(Location::Local), Just(Location::Remote)];
    prop_oneof![
        (location(), Just(vec![2, 3, 4, 5]).prop_shuffle(), 1..5usize).prop_map(|(at, list, len)| (
            Feature::Ccid,
            at,
            list[..len].to_vec()
        )),
        (location(), Just(vec![0, 1]).prop_shuffle(), 1..3usize).prop_map(|(at, list, len)| (
            Feature::SendAckVector,
            at,
            list[..len].to_vec()
        )),
        (0..0x1_0000u64).prop_map(|ratio| (Feature::AckRatio, Location::Local, vec![ratio])),
        (32..1u64 << 46).prop_map(|window| (Feature::SequenceWindow, Location::Local, vec![window])),
    ]
}

fn any_event() -> impl Strategy<Value = Event> {
    let who = || prop_oneof![Just(Who::Client), Just(Who::Server)];
    prop_oneof![
        2 => (who(), any_wish()).prop_map(|(who, (f, at, values))| Event::Propose(who, f, at, values)),
        1 => (who(), any_wish()).prop_map(|(who, (f, at, values))| Event::Prefer(who, f, at, values)),
        1 => who().prop_map(Event::Retransmit),
        4 => who().prop_map(Event::Send),
        4 => (who(), any::<prop::sample::Index>()).prop_map(|(who, at)| Event::Arrive(who, at)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn both_ends_agree_in_the_end(events in vec(any_event(), 0..80), wrap in any::<bool>()) {
        let end = |role, first| End { features: Features::new(role), next: first, gsr: Seq::new(0), inbox: Vec::new() };
        let first = Seq::new(if wrap { Seq::MODULUS - 5 } else { 1_000 });
        let mut client = end(Role::Client, first);
        let mut server = end(Role::Server, Seq::new(70_000));
        (client.gsr, server.gsr) = (Seq::new(69_999), first.prev());
        for event in events {
            let who = match event {
                Event::Propose(who, ..) | Event::Prefer(who, ..) | Event::Retransmit(who) => who,
                Event::Send(who) | Event::Arrive(who, _) => who,
            };
            let (end, other) = if who == Who::Client { (&mut client, &mut server) } else { (&mut server, &mut client) };
            match event {
                Event::Propose(_, feature, at, values) => end.features.propose(feature, at, &values, false).unwrap(),
                // A non-negotiable feature has no preferences.
                Event::Prefer(_, feature, at, values) => drop(end.features.prefer(feature, at, &values)),
                Event::Retransmit(_) => end.features.retransmit(),
                Event::Send(_) => end.send(other),
                Event::Arrive(_, at) if !end.inbox.is_empty() => end.arrive(at.index(end.inbox.len())),
                Event::Arrive(..) => {}
            }
        }
        // The network recovers, and what is still on the way is lost.
        for _ in 0..8 {
            client.features.retransmit();
            server.features.retransmit();
            client.send(&mut server);
            server.arrive(server.inbox.len() - 1);
            server.send(&mut client);
            client.arrive(client.inbox.len() - 1);
        }
        prop_assert!(!client.features.is_negotiating() && !server.features.is_negotiating());
        for feature in Feature::ALL {
            prop_assert_eq!(client.features.local(feature), server.features.remote(feature), "{:?} at the client", feature);
            prop_assert_eq!(server.features.local(feature), client.features.remote(feature), "{:?} at the server", feature);
        }
    }
}
