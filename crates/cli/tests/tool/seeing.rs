//! Observability of the daemon, for a client in another process: `timeous top`, metrics, qlog and remembered paths.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use rustix::process::Signal;
use serde_json::Value;
use timeous::clock;
use timeous::core::Duration;
use timeous_daemon::view::{Path, View};
use timeous_ipc::{Client, Event, Flow, OpenFlow, Options, Refusal};

use super::support::{Files, Running, command, nap, timeous, until};

const HOST: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const PACKET: u64 = 1_000;

/// Daemon with all outputs enabled, and their files.
struct ObservedDaemon {
    files: Files,
    daemon: Running,
}

impl ObservedDaemon {
    fn start() -> Self {
        let files = Files::new();
        let daemon = daemon(&files, "cm.sock", "first.sqlog");
        Self { files, daemon }
    }

    /// Output of a command that must succeed.
    #[track_caller]
    fn tool(&self, arguments: &[&str]) -> String {
        prints(&[arguments, &["--socket", &self.files.path("cm.sock")]].concat())
    }

    #[track_caller]
    fn view(&self) -> View {
        serde_json::from_str(&self.tool(&["top", "--once", "--json"])).unwrap()
    }

    #[track_caller]
    fn paths(&self) -> Vec<Path> {
        serde_json::from_str(&self.tool(&["paths", "list", "--json"])).unwrap()
    }

    fn client(&self) -> Client {
        client(&self.files)
    }

    /// Stops the daemon in order.
    #[track_caller]
    fn stop(&mut self) {
        self.daemon.signal(Signal::TERM);
        self.daemon.ends_with(0);
    }
}

fn daemon(files: &Files, socket: &str, qlog: &str) -> Running {
    let (socket, qlog, store) = (files.path(socket), files.path(qlog), files.path("paths.redb"));
    let arguments = ["daemon", "--socket", &socket, "--store", &store, "--qlog", &qlog, "--metrics", "127.0.0.1:0"];
    let mut daemon = timeous(&arguments);
    until("the daemon serves", || daemon.errors().contains("metrics at") || !daemon.is_alive());
    daemon
}

fn client(files: &Files) -> Client {
    let path = files.path("cm.sock").into();
    Client::connect(Options { path, ..Options::default() }).unwrap()
}

#[track_caller]
fn prints(arguments: &[&str]) -> String {
    let output =
        command(arguments).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Sends packets, acknowledged after some milliseconds, until the window has this size; returns the bytes sent.
fn send_until(client: &mut Client, flow: Flow, window: u64) -> u64 {
    let mut sent = 0;
    until("the window grows", || {
        client.request_many(flow, 32).unwrap();
        let began = clock::now();
        let mut round = 0;
        let mut answer_grants = |client: &mut Client| {
            let mut has_sent = false;
            while let Some(event) = client.poll_event() {
                match event {
                    Event::Granted(granted) => {
                        assert_eq!(granted, flow);
                        client.notify(flow, PACKET).unwrap();
                        (round, has_sent) = (round + PACKET, true);
                    }
                    // A grant lasts 50 ms: a busy machine may answer it later.
                    Event::Refused { why: Refusal::NotGranted, value, .. } => round -= value,
                    _ => {}
                }
            }
            has_sent
        };
        while client.wait(Some(began + Duration::from_millis(20))) {
            answer_grants(client);
        }
        // Once a call is answered, all that was submitted before it is processed.
        while {
            client.mtu(flow).unwrap();
            answer_grants(client)
        } {}
        let rtt = Some(clock::now() - began);
        client.update(flow, timeous_cm::Update { acked: round, rtt, ..Default::default() }).unwrap();
        sent += round;
        client.query(flow).unwrap().window >= window
    });
    sent
}

/// Value of a metric for the test's macroflow.
#[track_caller]
fn scraped(address: SocketAddr, name: &str) -> f64 {
    let text = ureq::get(format!("http://{address}/metrics")).call().unwrap().body_mut().read_to_string().unwrap();
    let of_it = |line: &&str| line.starts_with(&format!("{name}{{")) && line.contains(r#"address="192.0.2.1""#);
    let line = text.lines().find(of_it).unwrap_or_else(|| panic!("{name} in\n{text}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

fn metrics_address(daemon: &Running) -> SocketAddr {
    let errors = daemon.errors();
    let (_, rest) = errors.split_once("metrics at http://").unwrap();
    rest.split('/').next().unwrap().parse().unwrap()
}

/// Events of a qlog file with this name.
fn events(path: &str, name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    let events = text.split('\u{1e}').skip(2).map(|event| serde_json::from_str::<Value>(event).unwrap());
    events.filter(|event| event["name"] == name).collect()
}

#[test]
fn top_metrics_and_qlog_agree_on_what_a_client_did() {
    let mut shown = ObservedDaemon::start();
    let mut client = shown.client();
    let remote = Some(SocketAddr::new(HOST, 5_004));
    let flow = client.open(OpenFlow { remote, ..OpenFlow::to(HOST, PACKET as u32) }).unwrap();
    let sent = send_until(&mut client, flow, 30_000);
    // When this call is answered, all earlier messages in the queue to the daemon are processed.
    client.request(flow).unwrap();
    client.mtu(flow).unwrap();

    let view = shown.view();
    assert_eq!(view.macroflows.len(), 1);
    let macroflow = &view.macroflows[0];
    assert_eq!((macroflow.address, macroflow.user), (HOST, Some(rustix::process::geteuid().as_raw())));
    assert_eq!((macroflow.totals.sent_bytes_total, macroflow.totals.acked_bytes_total), (sent, sent));
    assert!(macroflow.window_bytes >= 30_000 && macroflow.srtt_us.is_some(), "{macroflow:?}");
    let [seen] = &macroflow.flows[..] else { panic!("one flow: {macroflow:?}") };
    assert_eq!((seen.remote, seen.mtu_bytes, seen.totals), (remote, PACKET, macroflow.totals));
    let owner = view.clients.iter().find(|client| client.id == seen.client).expect("its client is there");
    assert_eq!(owner.pid, std::process::id());

    let text = shown.tool(&["top", "--once"]);
    assert!(text.contains("192.0.2.1") && text.contains(&format!(":5004 pid {}", std::process::id())), "{text}");

    let metrics = metrics_address(&shown.daemon);
    assert_eq!(scraped(metrics, "timeous_macroflow_sent_bytes_total"), sent as f64);
    assert_eq!(scraped(metrics, "timeous_macroflow_acked_bytes_total"), sent as f64);
    assert_eq!(scraped(metrics, "timeous_macroflow_window_bytes"), macroflow.window_bytes as f64);
    assert_eq!(scraped(metrics, "timeous_macroflow_flows"), 1.0);

    drop(client);
    shown.stop();
    let qlog = shown.files.path("first.sqlog");
    let notified: u64 =
        events(&qlog, "timeous:notified").iter().map(|event| event["data"]["bytes"].as_u64().unwrap()).sum();
    assert_eq!(notified, sent);
    let last = events(&qlog, "quic:recovery_metrics_updated").pop().unwrap();
    assert_eq!(last["data"]["congestion_window"], macroflow.window_bytes);
    assert_eq!(events(&qlog, "timeous:flow_opened")[0]["data"]["address"], "192.0.2.1");
    assert_eq!(events(&qlog, "timeous:flow_closed").len(), 1);
    assert_eq!(events(&qlog, "timeous:events_lost").len(), 0);
}

#[test]
fn the_next_daemon_remembers_the_path_until_it_is_forgotten() {
    let mut shown = ObservedDaemon::start();
    let mut client = shown.client();
    let flow = client.open(OpenFlow::to(HOST, PACKET as u32)).unwrap();
    send_until(&mut client, flow, 40_000);
    client.close(flow).unwrap();
    until("the path is remembered", || !shown.paths().is_empty());
    assert_eq!(shown.paths()[0].address, HOST);
    drop(client);
    shown.stop();

    let store = shown.files.path("paths.redb");
    let nobody = shown.files.path("nobody.sock");
    let without = ["paths", "--socket", &nobody, "--store", &store];
    let text = prints(&without);
    assert!(text.contains("192.0.2.1"), "the tool reads the file where no daemon runs:\n{text}");

    shown.daemon = daemon(&shown.files, "cm.sock", "second.sqlog");
    let [path] = &shown.paths()[..] else { panic!("one path is remembered") };
    let mut client = shown.client();
    let flow = client.open(OpenFlow::to(HOST, PACKET as u32)).unwrap();
    client.mtu(flow).unwrap();
    let view = shown.view();
    assert_eq!(
        view.macroflows[0].srtt_us,
        Some(path.srtt_us),
        "the path's round trip is known before the first packet"
    );
    drop(client);
    until("the client is gone", || shown.view().macroflows.iter().all(|macroflow| macroflow.flows.is_empty()));
    assert_eq!(shown.tool(&["paths", "forget", "192.0.2.9"]), "0 forgotten\n");
    assert_eq!(shown.tool(&["paths", "forget", "192.0.2.1"]), "1 forgotten\n");
    shown.stop();
    let resumed = events(&shown.files.path("second.sqlog"), "timeous:macroflow_resumed");
    assert_eq!(resumed.len(), 1, "and it starts again from the window that it remembers");
    assert!(!prints(&without).contains("192.0.2.1"));
}

#[test]
fn a_second_daemon_on_the_same_memory_says_who_has_it() {
    let mut shown = ObservedDaemon::start();
    let mut second = daemon(&shown.files, "other.sock", "other.sqlog");
    let said = second.ends_with(4);
    assert!(said.contains("paths.redb") && said.contains("in use by process"), "{said}");
    shown.view();
    shown.stop();
}

#[test]
fn a_damaged_memory_is_set_aside_and_the_daemon_goes_on() {
    let files = Files::new();
    let damaged = files.write("paths.redb", &b"no memory of paths ".repeat(500));
    let mut shown = ObservedDaemon { daemon: daemon(&files, "cm.sock", "cm.sqlog"), files };
    let said = shown.daemon.errors();
    assert!(said.contains("is damaged") && said.contains(&format!("{damaged}.damaged")), "{said}");
    assert_eq!(shown.paths(), []);
    shown.stop();
}

#[test]
fn without_a_daemon_top_says_how_to_start_one() {
    let files = Files::new();
    let socket = files.path("nobody.sock");
    let said = timeous(&["top", "--once", "--socket", &socket]).ends_with(4);
    assert!(said.contains(&socket) && said.contains("timeous daemon"), "{said}");
    let said = timeous(&["paths", "--socket", &socket, "--store", &files.path("none.redb")]).ends_with(4);
    assert!(said.contains("nothing is remembered"), "{said}");
}

#[test]
fn a_full_screen_needs_a_terminal() {
    let mut shown = ObservedDaemon::start();
    let said = timeous(&["top", "--socket", &shown.files.path("cm.sock")]).ends_with(2);
    assert!(said.contains("--once"), "{said}");
    shown.stop();
}

#[test]
fn metrics_that_others_could_read_are_refused_unless_told() {
    let files = Files::new();
    let socket = files.path("cm.sock");
    let arguments = ["daemon", "--no-store", "--socket", &socket, "--metrics", "0.0.0.0:0"];
    let said = timeous(&arguments).ends_with(2);
    assert!(said.contains("not a loopback address"), "{said}");
}

#[test]
fn top_for_scripts_ends_when_the_daemon_does() {
    let mut shown = ObservedDaemon::start();
    let socket = shown.files.path("cm.sock");
    let mut top = command(&["top", "--json", "--interval", "250ms", "--socket", &socket]);
    let out = shown.files.path("out");
    top.stdout(std::fs::File::create(&out).unwrap());
    let mut top = Running::start(top);
    let lines = || std::fs::read_to_string(&out).unwrap().lines().count();
    until("top has looked twice", || lines() >= 2);
    shown.stop();
    until("top has noticed", || {
        nap();
        !top.is_alive()
    });
    assert!(top.ends_with(5).contains("daemon"));
}
