//! Feature negotiation under any sequence of operations: with a peer that sends arbitrary options, and between two
//! correct ends over an unreliable network, which agree in the end.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use timeous_dccp::{Feature, Features, Location, NegotiationError, Opt, OptionList, PacketType, ResetCode, Role, Seq, Side};

#[derive(Arbitrary, Debug)]
enum Input {
    Hostile { is_server: bool, steps: Vec<HostileStep> },
    Sound { steps: Vec<(bool, SoundStep)> },
}

#[derive(Arbitrary, Debug)]
enum HostileStep {
    Packet { advance: i8, ack: Option<u8>, options: Vec<HostileOption> },
    Wish(Wish),
    Retransmit,
    Send { limit: u8, packet: u8 },
}

#[derive(Arbitrary, Debug)]
struct HostileOption {
    is_change: bool,
    from_location: bool,
    feature: u8,
    values: Vec<u8>,
    mandatory: bool,
}

#[derive(Arbitrary, Debug)]
enum SoundStep {
    Wish(Wish),
    Retransmit,
    Send,
    Arrive(u8),
}

#[derive(Arbitrary, Debug)]
struct Wish {
    feature: u8,
    at_remote: bool,
    values: Vec<u8>,
    window: u64,
    is_proposed: bool,
    mandatory: bool,
}

impl Wish {
    /// Applies the change to the negotiation; refused ones have no effect.
    fn apply(&self, features: &mut Features, mandatory: bool) {
        // CCID 3's own feature is left out: an end that does not know it is no valid peer for it.
        let feature = Feature::ALL[usize::from(self.feature) % 9];
        let location = if self.at_remote { Location::Remote } else { Location::Local };
        let values: Vec<u64> = match feature {
            Feature::SequenceWindow | Feature::AckRatio => vec![self.window],
            Feature::Ccid => self.values.iter().map(|&v| u64::from(v % 8)).collect(),
            _ => self.values.iter().map(|&v| u64::from(v % 3)).collect(),
        };
        let before = features.value(feature, location);
        let _ = if self.is_proposed {
            features.propose(feature, location, &values, mandatory)
        } else {
            features.prefer(feature, location, &values)
        };
        assert_eq!(features.value(feature, location), before, "a wish alone changes no value");
    }
}

fuzz_target!(|input: Input| match input {
    Input::Hostile { is_server, steps } => hostile(if is_server { Role::Server } else { Role::Client }, &steps),
    Input::Sound { steps } => sound(&steps),
});

fn hostile(role: Role, steps: &[HostileStep]) {
    let mut features = Features::new(role);
    let (mut theirs, mut ours) = (Seq::new(3), Seq::new(5));
    for step in steps {
        match step {
            HostileStep::Packet { advance, ack, options } => {
                theirs = Seq::new(theirs.value().wrapping_add_signed((*advance).into()));
                features.begin_packet(theirs, ack.map(|back| ours - u64::from(back)));
                for option in options {
                    if !hear(&mut features, option) {
                        return;
                    }
                }
                if let Some(back) = ack {
                    features.on_ack(ours - u64::from(*back));
                }
            }
            HostileStep::Wish(wish) => wish.apply(&mut features, wish.mandatory),
            HostileStep::Retransmit => features.retransmit(),
            HostileStep::Send { limit, packet } => {
                let packet = PacketType::ALL[usize::from(*packet) % PacketType::ALL.len()];
                let mut list = OptionList::with_limit(usize::from(*limit) * 4);
                features.poll_options(ours, packet, &mut list);
                let count =
                    list.iter(packet).map(Result::unwrap).filter(|item| item.opt.is_permitted_on(packet)).count();
                assert_eq!(count == 0, list.is_empty());
                ours = ours.next();
            }
        }
        for feature in Feature::ALL {
            assert!(feature.is_legal(features.local(feature)), "{feature:?} here");
            assert!(feature.is_legal(features.remote(feature)), "{feature:?} there");
        }
    }
    // Whatever was received, all pending options must be sent within the worst-case number of packets.
    for _ in 0..64 + 2 * Feature::ALL.len() {
        features.poll_options(ours, PacketType::Ack, &mut OptionList::new());
        ours = ours.next();
    }
    assert!(!features.wants_to_send());
}

/// Processes an option; returns whether the connection continues.
fn hear(features: &mut Features, option: &HostileOption) -> bool {
    let side = if option.from_location { Side::L } else { Side::R };
    let values = &option.values[..option.values.len().min(252)];
    let opt = if option.is_change {
        Opt::Change { side, feature: option.feature, values }
    } else {
        Opt::Confirm { side, feature: option.feature, values }
    };
    match features.on_option(&opt, option.mandatory) {
        Ok(None) => true,
        Ok(Some(agreement)) => {
            assert_eq!(features.value(agreement.feature, agreement.location), agreement.value);
            true
        }
        Err(error) => {
            let code = error.reset().code;
            assert_eq!(code, if option.is_change { ResetCode::MandatoryError } else { ResetCode::OptionError });
            // A Change of ours that was mandatory fails by the peer's that shares no value with it, mandatory or not (§6.6.9).
            let ours = matches!(error, NegotiationError::NothingShared { .. });
            assert!(option.mandatory || !option.is_change || ours, "{error}");
            false
        }
    }
}

struct End {
    features: Features,
    next: Seq,
    gsr: Seq,
    inbox: Vec<(Seq, Seq, OptionList)>,
}

impl End {
    fn new(role: Role, next: Seq, gsr: Seq) -> Self {
        Self { features: Features::new(role), next, gsr, inbox: Vec::new() }
    }

    fn send(&mut self, to: &mut Self) {
        let mut options = OptionList::new();
        self.features.poll_options(self.next, PacketType::Ack, &mut options);
        to.inbox.push((self.next, self.gsr, options));
        self.next = self.next.next();
    }

    fn arrive(&mut self, at: usize) {
        let Some((seq, ack, options)) = self.inbox.get(at).cloned() else { return };
        self.gsr = self.gsr.max(seq);
        self.features.begin_packet(seq, Some(ack));
        for item in options.iter(PacketType::Ack) {
            let item = item.unwrap();
            self.features.on_option(&item.opt, item.mandatory).expect("two sound ends never break the rules");
        }
        self.features.on_ack(ack);
    }
}

fn sound(steps: &[(bool, SoundStep)]) {
    let (first, second) = (Seq::new(Seq::MODULUS - 9), Seq::new(70));
    let mut client = End::new(Role::Client, first, second.prev());
    let mut server = End::new(Role::Server, second, first.prev());
    for (is_client, step) in steps {
        let (end, other) = if *is_client { (&mut client, &mut server) } else { (&mut server, &mut client) };
        match step {
            SoundStep::Wish(wish) => wish.apply(&mut end.features, false),
            SoundStep::Retransmit => end.features.retransmit(),
            SoundStep::Send => end.send(other),
            SoundStep::Arrive(at) => end.arrive(usize::from(*at)),
        }
    }
    // The network recovers; packets still in flight are lost.
    for _ in 0..8 {
        client.features.retransmit();
        server.features.retransmit();
        client.send(&mut server);
        server.arrive(server.inbox.len() - 1);
        server.send(&mut client);
        client.arrive(client.inbox.len() - 1);
    }
    assert!(!client.features.is_negotiating() && !server.features.is_negotiating());
    for feature in Feature::ALL {
        assert_eq!(client.features.local(feature), server.features.remote(feature), "{feature:?} at the client");
        assert_eq!(server.features.local(feature), client.features.remote(feature), "{feature:?} at the server");
    }
}
