//! Stable interface for scripts: field names, and visibility per user.

use std::net::{IpAddr, Ipv4Addr};

use serde_json::{Value, json};
use timeous_cm::{ClientId, Destination, FlowSpec, Manager, Update, User};
use timeous_core::{Duration, Instant};

use super::{Client, Reader, View};

/// Returns a view of two flows: one of user 1000 that has sent a packet and received feedback, and one of the host
/// without any.
fn view() -> View {
    let mut cm = Manager::default();
    let mut now = Instant::ZERO;
    let host = Destination::from(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)));
    let client = cm.join();
    let flow = cm.open_for(now, client, FlowSpec::to(host.with_user(User(1_000)), 1_200)).unwrap();
    cm.open_for(now, ClientId::HOST, FlowSpec::to(host, 1_200)).unwrap();
    cm.request(now, flow).unwrap();
    cm.notify(now, flow, 1_000).unwrap();
    now += Duration::from_millis(40);
    let update = Update { acked: 1_000, rtt: Some(Duration::from_millis(40)), ..Update::default() };
    cm.update(now, flow, update).unwrap();
    View {
        clients: vec![Client { id: client.as_u64(), pid: 77, uid: 1_000 }],
        ..View::of(&cm.snapshot(), now, Instant::ZERO)
    }
}

#[test]
fn names_bear_their_units_and_do_not_change() {
    let json = serde_json::to_value(view()).unwrap();
    let names = |value: &Value| {
        let mut names: Vec<_> = value.as_object().unwrap().keys().cloned().collect();
        names.sort();
        names.join(" ")
    };
    assert_eq!(names(&json), "atNs clients health macroflows pid uptimeMs version");
    assert_eq!(names(&json["clients"][0]), "id pid uid");
    let macroflow = json["macroflows"].as_array().unwrap().iter().find(|one| one["user"] == 1_000).unwrap();
    assert_eq!(
        names(macroflow),
        "ackedBytesTotal address controller dscp flows grants id lossPpm lossesTotal lostBytesTotal marksTotal minRttUs \
         outstandingBytes rateBps refusedTotal rttvarUs scheduling sentBytesTotal srttUs thresholdBytes timeoutsTotal user \
         waiting windowBytes"
    );
    assert_eq!(
        names(&macroflow["flows"][0]),
        "ackedBytesTotal client grants id local lostBytesTotal mtuBytes outstandingBytes refusedTotal remote sentBytesTotal \
         waiting weight"
    );
    let values = ["address", "srttUs", "sentBytesTotal", "ackedBytesTotal", "outstandingBytes", "scheduling"];
    let values: Vec<_> = values.iter().map(|&name| macroflow[name].clone()).collect();
    assert_eq!(json!(values), json!(["192.0.2.1", 40_000, 1_000, 1_000, 0, "roundRobin"]));
    assert_eq!(json["uptimeMs"], 40);
}

#[test]
fn json_is_read_back_as_it_was() {
    let view = view();
    let json = serde_json::to_string(&view).unwrap();
    assert_eq!(serde_json::from_str::<View>(&json).unwrap(), view);
}

#[test]
fn users_see_what_is_theirs() {
    let own = rustix::process::geteuid().as_raw();
    let (user, other) = (1_000 + u32::from(own == 1_000) * 5_000, 2_000 + u32::from(own == 2_000) * 5_000);
    let [theirs, root, daemon, stranger] = [user, 0, own, other].map(|uid| Reader { uid, sees_host: false });
    assert!(theirs.sees(Some(user)) && !theirs.sees(Some(other)) && !theirs.sees(None));
    assert!([Some(user), Some(other), None].iter().all(|&owner| root.sees(owner) && daemon.sees(owner)));
    let sharing = Reader { sees_host: true, ..theirs };
    assert!(sharing.sees(Some(user)) && !sharing.sees(Some(other)) && sharing.sees(None));
    let all = view();
    assert_eq!(all.macroflows.len(), 2);
    let stranger = all.clone().for_reader(&stranger);
    assert_eq!((stranger.macroflows.len(), stranger.clients.len()), (0, 0));
    assert_eq!(all.clone().for_reader(&root), all);
}
