//! Property test: the Ack Vector against a model that records every packet, in random order, with loss both ways.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use timeous_dccp::ack_vector::{Arrival, Reports, vectors_of};
use timeous_dccp::{AckVector, OptionList, PacketState, PacketType, Seq};

/// Event at the receiver of data.
#[derive(Clone, Debug)]
enum Event {
    /// The packet that is this far after the newest arrives, or before it.
    Data { step: i64, marked: bool },
    /// An acknowledgement is sent, and arrives or not.
    Ack { arrives: bool },
    /// The sender of data acknowledges the last acknowledgement that it got.
    AckOfAck,
}

fn any_event() -> impl Strategy<Value = Event> {
    let step = prop_oneof![6 => Just(1i64), 2 => 2..6i64, 3 => -12..1i64, 1 => 60..300i64];
    prop_oneof![
        6 => (step, prop::bool::weighted(0.2)).prop_map(|(step, marked)| Event::Data { step, marked }),
        2 => any::<bool>().prop_map(|arrives| Event::Ack { arrives }),
        1 => Just(Event::AckOfAck),
    ]
}

/// Both ends: the receiver's vector under test, and what each packet's state really is, by steps from the first.
struct World {
    first: Seq,
    vector: AckVector,
    truth: BTreeMap<i64, PacketState>,
    newest: i64,
    /// State of each packet as the sender of data knows it.
    known: BTreeMap<i64, PacketState>,
    next_ack: Seq,
    last_ack_seen: Option<Seq>,
}

impl World {
    fn new(first: Seq, late_window: u32) -> Self {
        // So roomy that nothing is forgotten for lack of it.
        let mut vector = AckVector::new(1_008, late_window);
        vector.record(first, PacketState::Received);
        Self {
            first,
            vector,
            truth: BTreeMap::from([(0, PacketState::Received)]),
            newest: 0,
            known: BTreeMap::new(),
            next_ack: Seq::new(u64::MAX - 3),
            last_ack_seen: None,
        }
    }

    fn seq(&self, steps: i64) -> Seq {
        Seq::new(self.first.value().wrapping_add_signed(steps))
    }

    fn data(&mut self, step: i64, marked: bool) -> Result<(), TestCaseError> {
        let at = (self.newest + step).max(0);
        let state = if marked { PacketState::Marked } else { PacketState::Received };
        let arrival = self.vector.record(self.seq(at), state);
        let had = self.truth.get(&at).copied();
        match arrival {
            Arrival::Newest => {
                prop_assert!(at > self.newest);
                self.newest = at;
                self.truth.insert(at, state);
            }
            Arrival::Late => {
                prop_assert!(at < self.newest && had.is_none());
                self.truth.insert(at, state);
            }
            Arrival::Duplicate => prop_assert!(had.is_some()),
            // Only what the sender knows the state of may have been cleared: it knows it as received, or as lost.
            Arrival::TooOld => prop_assert!(self.known.contains_key(&at), "{} was cleared unreported", at),
        }
        Ok(())
    }

    fn ack(&mut self, arrives: bool) -> Result<(), TestCaseError> {
        let mut list = OptionList::new();
        let on = self.next_ack;
        self.next_ack = on.next();
        prop_assert!(self.vector.push_options(on, &mut list));
        if !arrives {
            return Ok(());
        }
        self.last_ack_seen = Some(on);
        let vectors = vectors_of(list.iter(PacketType::Ack));
        for report in Reports::new(self.seq(self.newest), self.first, vectors).unwrap() {
            for seq in report.packets() {
                let at = seq.offset_from(self.first);
                let truth = self.truth.get(&at).copied().unwrap_or(PacketState::Missing);
                prop_assert_eq!(report.state, truth, "packet {}", at);
                let known = self.known.entry(at).or_insert(PacketState::Missing);
                *known = known.updated_by(report.state);
            }
        }
        // The sender now knows everything: vectors are cumulative (§11.4.2).
        for (at, state) in &self.truth {
            prop_assert_eq!(self.known.get(at), Some(state), "packet {} was never reported", at);
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn whatever_arrives_is_reported_until_the_sender_knows(
        first in prop_oneof![Just(0), Just(Seq::MODULUS - 20), any::<u64>()],
        late_window in prop_oneof![Just(0), Just(3), Just(200)],
        events in vec(any_event(), 1..150),
    ) {
        let mut world = World::new(Seq::new(first), late_window);
        for event in events {
            match event {
                Event::Data { step, marked } => world.data(step, marked)?,
                Event::Ack { arrives } => world.ack(arrives)?,
                Event::AckOfAck => {
                    if let Some(seen) = world.last_ack_seen {
                        world.vector.on_ack(seen);
                    }
                }
            }
            prop_assert_eq!(world.vector.ack_number(), Some(world.seq(world.newest)));
        }
        world.ack(true)?;
    }

    /// However little room there is, what is reported is true, and the newest packets are.
    #[test]
    fn a_small_record_forgets_and_never_lies(max_bytes in 1..12usize, events in vec(any_event(), 1..150)) {
        let mut vector = AckVector::new(max_bytes, 0);
        let (mut truth, mut newest) = (BTreeMap::new(), None::<i64>);
        for event in events {
            if let Event::Data { step, marked } = event {
                let at = newest.map_or(0, |newest| newest + step);
                let seq = Seq::new((at + 100_000) as u64);
                let state = if marked { PacketState::Marked } else { PacketState::Received };
                if matches!(vector.record(seq, state), Arrival::Newest | Arrival::Late) {
                    truth.insert(seq.value(), state);
                }
                newest = Some(newest.map_or(0, |newest| newest.max(at)));
            }
            prop_assert!(vector.vector_len() <= max_bytes);
            let Some(ack) = vector.ack_number() else { continue };
            let mut list = OptionList::new();
            prop_assert!(vector.push_options(Seq::new(1), &mut list));
            let mut covered = 0;
            for report in Reports::new(ack, Seq::new(0), vectors_of(list.iter(PacketType::Ack))).unwrap() {
                for seq in report.packets() {
                    let state = truth.get(&seq.value()).copied().unwrap_or(PacketState::Missing);
                    prop_assert_eq!(report.state, state);
                    prop_assert_eq!(vector.state_of(seq), Some(state));
                    covered += 1;
                }
            }
            prop_assert_eq!(covered, vector.coverage());
            prop_assert!(covered >= 1);
            prop_assert_eq!(vector.state_of(ack - covered), None);
        }
    }
}
