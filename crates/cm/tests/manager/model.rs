//! Test of the manager against a simple counting model.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use timeous_cm::{ClientEvent, ClientId, FlowId, FlowSpec, Kind, Loss, Manager, Scheduling, Update};
use timeous_core::{Duration, Instant};

use super::script::*;

/// Action of a client.
#[derive(Clone, Debug)]
enum Act {
    Open { client: usize, weight: u32 },
    Close(usize),
    Leave(usize),
    Request(usize, u32),
    RequestBy(usize, u64),
    Notify(usize, u64),
    Ack(usize, u64),
    Lose(usize, u64, bool),
    Nonsense(usize),
    Poll(usize),
    Pass(u64),
    Split(usize),
    Merge(usize, usize),
    Schedule(usize, u8),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let flow = 0usize..12;
    let act = prop_oneof![
        2 => (0usize..3, 1u32..5).prop_map(|(client, weight)| Act::Open { client, weight }),
        1 => flow.clone().prop_map(Act::Close),
        1 => (0usize..3).prop_map(Act::Leave),
        6 => (flow.clone(), 1u32..5).prop_map(|(flow, count)| Act::Request(flow, count)),
        2 => (flow.clone(), 0u64..500).prop_map(|(flow, by)| Act::RequestBy(flow, by)),
        8 => (flow.clone(), 0u64..=MTU).prop_map(|(flow, bytes)| Act::Notify(flow, bytes)),
        6 => (flow.clone(), 0u64..3_000).prop_map(|(flow, bytes)| Act::Ack(flow, bytes)),
        1 => (flow.clone(), 0u64..3_000, any::<bool>()).prop_map(|(flow, bytes, all)| Act::Lose(flow, bytes, all)),
        1 => flow.clone().prop_map(Act::Nonsense),
        3 => (0usize..3).prop_map(Act::Poll),
        4 => (0u64..120).prop_map(Act::Pass),
        1 => flow.clone().prop_map(Act::Split),
        1 => (flow.clone(), flow.clone()).prop_map(|(flow, with)| Act::Merge(flow, with)),
        1 => (flow, 0u8..3).prop_map(|(flow, order)| Act::Schedule(flow, order)),
    ];
    prop::collection::vec(act, 1..300)
}

/// Simple model: bytes in flight of each flow.
struct World {
    cm: Manager,
    now: Instant,
    clients: Vec<ClientId>,
    flows: Vec<FlowId>,
    outstanding: BTreeMap<FlowId, u64>,
}

impl World {
    fn new(kind: Kind) -> Self {
        let mut cm = Manager::new(kind.constructor());
        let clients = (0..3).map(|_| cm.join()).collect();
        Self { cm, now: at(0), clients, flows: Vec::new(), outstanding: BTreeMap::new() }
    }

    fn flow(&self, n: usize) -> Option<FlowId> {
        self.flows.get(n % self.flows.len().max(1)).copied()
    }

    fn forget(&mut self, flow: FlowId) {
        self.flows.retain(|&f| f != flow);
        self.outstanding.remove(&flow);
    }

    fn act(&mut self, act: Act) -> Option<()> {
        let now = self.now;
        match act {
            Act::Open { client, weight } => {
                let spec = FlowSpec { weight, ..spec() };
                let flow = self.cm.open_for(now, self.clients[client], spec).unwrap();
                self.flows.push(flow);
                self.outstanding.insert(flow, 0);
            }
            Act::Close(n) => {
                let flow = self.flow(n)?;
                self.cm.close(now, flow).unwrap();
                self.forget(flow);
            }
            Act::Leave(n) => {
                let gone: Vec<_> = self.cm.flows_of(self.clients[n]).collect();
                self.cm.leave(now, self.clients[n]);
                gone.into_iter().for_each(|flow| self.forget(flow));
                self.clients[n] = self.cm.join();
            }
            Act::Request(n, count) => self.cm.request_many(now, self.flow(n)?, count).unwrap(),
            Act::RequestBy(n, by) => {
                let _ = self.cm.request_by(now, self.flow(n)?, now + Duration::from_millis(by));
            }
            Act::Notify(n, bytes) => {
                let flow = self.flow(n)?;
                let held = self.cm.has_grant(flow);
                assert_eq!(self.cm.notify(now, flow, bytes).is_ok(), held);
                *self.outstanding.get_mut(&flow)? += if held { bytes } else { 0 };
            }
            Act::Ack(n, bytes) => {
                let flow = self.flow(n)?;
                let bytes = bytes.min(self.outstanding[&flow]);
                self.cm.update(now, flow, acked(bytes)).unwrap();
                *self.outstanding.get_mut(&flow)? -= bytes;
            }
            Act::Lose(n, bytes, all) => {
                let flow = self.flow(n)?;
                let lost = if all { self.outstanding[&flow] } else { bytes.min(self.outstanding[&flow]) };
                let loss = if all { Loss::Persistent } else { Loss::Transient };
                let sent_at = now.saturating_sub(RTT);
                self.cm.update(now, flow, Update { lost, loss: Some((loss, sent_at)), ..Update::default() }).unwrap();
                *self.outstanding.get_mut(&flow)? -= lost;
            }
            Act::Nonsense(n) => {
                let flow = self.flow(n)?;
                let before = self.cm.query(flow).unwrap();
                self.cm.update(now, flow, acked(self.outstanding[&flow] + 1)).unwrap_err();
                assert_eq!(self.cm.query(flow).unwrap(), before);
            }
            Act::Poll(n) => {
                while let Some(event) = self.cm.poll_client(self.clients[n]) {
                    let ClientEvent::Granted(flow) = event else { continue };
                    assert!(self.cm.has_grant(flow), "nobody hears of a grant that is gone");
                }
            }
            Act::Pass(millis) => {
                let end = now + Duration::from_millis(millis);
                while let Some(due) = self.cm.poll_timeout().filter(|&due| due <= end) {
                    self.cm.handle_timeout(due.max(now));
                    assert!(self.cm.poll_timeout().is_none_or(|next| next > due), "time that is due is dealt with");
                }
                self.now = end;
            }
            Act::Split(n) => {
                self.cm.split(now, self.flow(n)?).unwrap();
            }
            Act::Merge(n, with) => self.cm.merge(now, self.flow(n)?, self.flow(with)?).unwrap(),
            Act::Schedule(n, order) => {
                let orders = [Scheduling::RoundRobin, Scheduling::Weighted, Scheduling::Deadline];
                self.cm.set_scheduler(self.flow(n)?, orders[usize::from(order)]).unwrap();
            }
        }
        Some(())
    }

    fn check(&self, windows: &mut BTreeMap<timeous_cm::MacroflowId, Promises>) {
        let view = self.cm.snapshot();
        let mut seen = 0;
        for macroflow in &view.macroflows {
            let sum: u64 = macroflow.flows.iter().map(|flow| flow.outstanding).sum();
            assert_eq!(macroflow.state.outstanding, sum, "what is under way is some flow's");
            assert_eq!(macroflow.grants, macroflow.flows.iter().map(|flow| flow.grants).sum::<u32>());
            assert_eq!(macroflow.waiting, macroflow.flows.iter().map(|flow| u64::from(flow.waiting)).sum::<u64>());
            for flow in &macroflow.flows {
                assert_eq!(flow.outstanding, self.outstanding[&flow.id]);
                seen += 1;
            }
            // Bytes beyond the window were within a larger one or came with a moved flow; the excess does not grow.
            let promised = sum + u64::from(macroflow.grants) * MTU;
            let limit = macroflow.state.window.max(MTU);
            let flows = macroflow.flows.iter().map(|flow| flow.id).collect();
            // A silent flow is set aside, and comes back with its grants when it is heard.
            let has_moved = |known: &&Promises| !known.flows.is_superset(&flows);
            let known = windows.get(&macroflow.id).filter(|known| !has_moved(known));
            let (before, limit_before) = known.map_or((u64::MAX, u64::MAX), |known| (known.promised, known.limit));
            assert!(promised <= limit || promised <= before || promised <= limit_before, "{macroflow:?}");
            windows.insert(macroflow.id, Promises { promised, limit, flows });
            // No request waits that could be granted: not for room, unless the pace holds it back.
            if macroflow.waiting > 0 && macroflow.grants == 0 && sum == 0 {
                assert!(self.cm.poll_timeout().is_some(), "an empty path with somebody waiting: {macroflow:?}");
            }
        }
        assert_eq!(seen, self.flows.len());
    }
}

/// Bytes promised in a macroflow, its window, and its flows, at the last check.
struct Promises {
    promised: u64,
    limit: u64,
    flows: BTreeSet<FlowId>,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn books_balance_whatever_happens(acts in acts(), kind in 0..Kind::ALL.len()) {
        let mut world = World::new(Kind::ALL[kind]);
        let mut windows = BTreeMap::new();
        for act in acts {
            let moves = matches!(act, Act::Split(_) | Act::Merge(..));
            world.act(act);
            if moves {
                windows.clear();
            }
            world.check(&mut windows);
        }
    }
}

#[test]
fn shares_follow_weights_over_time() {
    let mut cm = Manager::new(Kind::NewReno.constructor());
    let flows = [1, 2, 5].map(|weight| cm.open_for(at(0), ClientId::HOST, FlowSpec { weight, ..spec() }).unwrap());
    let mut sent = BTreeMap::new();
    for flow in flows {
        cm.request_many(at(0), flow, 60_000).unwrap();
    }
    for round in 0..50 {
        let mut under_way = BTreeMap::new();
        while let Some(flow) = cm.poll_granted() {
            cm.notify(at(100 * round), flow, MTU).unwrap();
            *under_way.entry(flow).or_insert(0) += MTU;
        }
        for (flow, bytes) in under_way {
            // The first window was used before the others requested.
            let bytes_then = if round == 0 { 0 } else { bytes };
            *sent.entry(flow).or_insert(0) += bytes_then;
            // The window stays constant.
            let update = Update { recovering: true, ..acked(bytes) };
            cm.update(at(100 * round + 100), flow, update).unwrap();
        }
    }
    let sent = flows.map(|flow| sent[&flow]);
    for (flow, weight) in sent.iter().zip([1, 2, 5]) {
        assert!(flow.abs_diff(sent[0] * weight) <= 2 * weight * MTU, "{sent:?}");
    }
}
