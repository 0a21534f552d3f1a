//! Tests of flows whose transports compute their rates themselves.

use timeous_cm::{CmError, Loss, Manager, Steering, Update};
use timeous_core::Rate;

use super::script::*;

fn kilobits(rate: u64) -> Steering {
    Steering { rate: Rate::from_kbps(rate), window: 100 * MTU }
}

#[test]
fn a_steered_flow_leaves_at_its_rate_from_the_first_packet_on() {
    let mut cm = Manager::default();
    let flow = cm.open(host(), MTU);
    // A packet every 10 ms, though no RTT is known.
    cm.steer(at(0), flow, kilobits(800)).unwrap();
    assert_eq!(cm.query(flow).unwrap().rate, Rate::from_kbps(800));
    let sent = fill_until(&mut cm, at(0), at(995), flow);
    assert!((100..=102).contains(&sent), "{sent}: a hundred, and one ahead");
    let update = Update { loss: Some((Loss::Persistent, at(500))), ..acked(90 * MTU) };
    cm.update(at(1_000), flow, update).unwrap();
    assert_eq!(
        cm.query(flow).unwrap().rate,
        Rate::from_kbps(800),
        "what follows from losses is the transport's to say"
    );
    cm.steer(at(1_000), flow, kilobits(80)).unwrap();
    let sent = fill_until(&mut cm, at(1_000), at(1_995), flow);
    assert!((9..=12).contains(&sent), "{sent}");
    assert_eq!(cm.controller_name(flow), Ok("tfrc"));
}

#[test]
fn the_window_of_a_steered_flow_bounds_what_is_outstanding() {
    let mut cm = Manager::default();
    let flow = cm.open(host(), MTU);
    cm.steer(at(0), flow, Steering { rate: Rate::from_kbps(8_000), window: 5 * MTU }).unwrap();
    assert_eq!(fill_until(&mut cm, at(0), at(500), flow), 5);
}

#[test]
fn flows_beside_a_steered_one_go_on_as_they_did() {
    let mut cm = Manager::default();
    let (plain, steered) = (cm.open(host(), MTU), cm.open(host(), MTU));
    let now = grow(&mut cm, at(0), plain, 3);
    let before = cm.query_macroflow(plain).unwrap();
    cm.steer(now, steered, kilobits(100)).unwrap();
    let other = cm.open(host(), MTU);
    cm.steer(now, other, kilobits(200)).unwrap();
    let names = [plain, steered, other].map(|flow| cm.macroflow_of(flow).unwrap());
    assert!(names[0] != names[1] && names[1] != names[2] && names[0] != names[2]);
    assert_eq!(cm.query_macroflow(plain).unwrap(), before);
    assert_eq!(cm.query(steered).unwrap().srtt, Some(RTT), "the path is the same");
    // Merged because of a shared bottleneck: a set rate is still for one flow.
    cm.merge(now, steered, plain).unwrap();
    cm.steer(now, steered, kilobits(100)).unwrap();
    assert_eq!(cm.controller_name(plain), Ok("aimd"));
    assert_ne!(cm.macroflow_of(steered), cm.macroflow_of(plain));
}

#[test]
fn only_the_hosts_own_transports_reckon_their_rates() {
    let mut cm = Manager::default();
    let client = cm.join();
    let flow = cm.open_for(at(0), client, spec()).unwrap();
    assert_eq!(cm.steer(at(0), flow, kilobits(1_000_000)), Err(CmError::UnknownFlow(flow)));
}
