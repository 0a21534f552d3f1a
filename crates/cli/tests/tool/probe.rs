//! `timeous probe`: what a path bears, on loopback and across a router with a firewall.

use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};

use timeous_net::emulator::Namespace;

use crate::support::{Files, Running, assert_is_beginning_of, clip, command, free_port, skip, timeous};

/// Runs a probe, and returns its report.
#[track_caller]
fn report(mut command: Command) -> serde_json::Value {
    let output = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns the verdict on a property, and its grounds.
#[track_caller]
fn verdict<'a>(report: &'a serde_json::Value, property: &str) -> (&'a str, &'a str) {
    let findings = report["findings"].as_array().unwrap();
    let found = findings.iter().find(|finding| finding["property"] == property);
    let found = found.unwrap_or_else(|| panic!("no {property} in {report}"));
    (found["verdict"].as_str().unwrap(), found["why"].as_str().unwrap())
}

#[test]
fn receivers_answer_a_probe_encrypted_or_not_and_go_on_waiting() {
    let files = Files::new();
    let bytes = clip(30);
    let source = files.write("clip.h264", &bytes);
    files.write("pass", b"a long enough passphrase\n");
    let pass = format!("passphrase=file:{}", files.path("pass"));
    for security in ["encryption=off", &pass] {
        let (port, sink) = (free_port(), files.path(&format!("{}.h264", security.len())));
        let keys = format!("transport=auto&latency=3s&reconnect=off&{security}");
        let mut receiver = timeous(&["recv", &format!("timeous://:{port}?{keys}"), &sink]);
        receiver.until_it_says(" at ");
        let host = format!("127.0.0.1:{port}");
        let report = report(command(&["probe", &host, "--json"]));
        for property in ["UDP", "DCCP in UDP", "TCP", "packets of 1500 bytes", "ECN, to the host", "ECN, from the host"]
        {
            assert_eq!(verdict(&report, property).0, "yes", "{property}: {report}");
        }
        assert_eq!(verdict(&report, "changed retransmissions").0, "unknown", "no router on loopback");
        assert!(report["byteMTU"].as_u64().unwrap() > 1500 && report["msRTT"].as_f64().unwrap() > 0.0, "{report}");
        // The tool asks for the version that has arrived behind a router only.
        let mut trial = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let asked = [&b"\0timeous trial\0\0"[..], &[7; 16]].concat();
        trial.write_all(&asked).unwrap();
        let mut answer = Vec::new();
        trial.read_to_end(&mut answer).unwrap();
        assert_eq!(answer, asked);
        timeous(&["send", &source, &format!("timeous://{host}?{keys}")]).ends_with(0);
        receiver.ends_with(0);
        assert!(assert_is_beginning_of(Path::new(&sink), &bytes) >= 30);
    }
}

#[test]
fn a_port_without_a_listener_and_a_server_of_tcp_alone() {
    let port = free_port();
    let server = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
    let report = report(command(&["probe", &format!("127.0.0.1:{port}"), "--json"]));
    assert_eq!(verdict(&report, "UDP").0, "yes", "an ICMP message proves it: {report}");
    assert_eq!(verdict(&report, "DCCP in UDP").0, "unknown");
    assert_eq!(verdict(&report, "TCP").0, "yes");
    drop(server);
    timeous(&["probe", "no.such.host.invalid"]).ends_with(4);
}

/// The row of UDP was `no` for an echo service, and for services that ignore DCCP, such as QUIC.
#[test]
fn any_datagram_of_the_port_shows_that_udp_passes() {
    let probe = |answers: fn(&[u8]) -> Option<Vec<u8>>| {
        let service = UdpSocket::bind("127.0.0.1:0").unwrap();
        let host = service.local_addr().unwrap().to_string();
        service.set_read_timeout(Some(std::time::Duration::from_secs(2))).unwrap();
        let serving = std::thread::spawn(move || {
            let mut datagram = [0; 2_000];
            while let Ok((len, from)) = service.recv_from(&mut datagram) {
                answers(&datagram[..len]).map(|answer| service.send_to(&answer, from).unwrap());
            }
        });
        let report = report(command(&["probe", &host, "--json", "--wait", "100ms"]));
        serving.join().unwrap();
        report
    };
    for (report, words) in
        [(probe(|datagram| Some(datagram.to_vec())), "sends back"), (probe(|_| Some(b"what?".to_vec())), "5 bytes")]
    {
        let (passes, why) = verdict(&report, "UDP");
        assert!(passes == "yes" && why.contains(words), "{report}");
        let (dccp, why) = verdict(&report, "DCCP in UDP");
        assert!(dccp == "unknown" && why.contains("another service"), "{report}");
        assert!(report["msRTT"].as_f64().unwrap() > 0.0, "{report}");
        assert!(report["advice"].as_str().unwrap().starts_with("no Timeous receiver"), "{report}");
    }
    let silent = probe(|_| None);
    assert_eq!((verdict(&silent, "UDP").0, verdict(&silent, "TCP").0), ("unknown", "yes"), "{silent}");
}

#[test]
fn only_a_timeous_receiver_is_advised_as_one() {
    let files = Files::new();
    let advice = |port: u16| report(command(&["probe", &format!("127.0.0.1:{port}"), "--json"]));
    let port = free_port();
    let uri = format!("timeous://:{port}?transport=tcp&encryption=off");
    let mut receiver = timeous(&["recv", &uri, &files.path("out.h264")]);
    receiver.until_it_says(" at ");
    let of_tcp = advice(port);
    assert_eq!(verdict(&of_tcp, "Timeous over TCP").0, "yes", "{of_tcp}");
    assert!(of_tcp["advice"].as_str().unwrap().contains("transport=tcp"), "{of_tcp}");

    let port = free_port();
    let server = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
    let of_another = advice(port);
    assert_eq!(verdict(&of_another, "Timeous over TCP").0, "unknown", "{of_another}");
    assert!(of_another["advice"].as_str().unwrap().starts_with("no Timeous receiver"), "{of_another}");
    drop(server);
}

/// Two hosts with a router between.
struct Routed([Namespace; 3]);

impl Routed {
    /// `None`: no right to make namespaces, or to forward packets in them.
    fn new(name: &str) -> Option<Self> {
        let names = ["a", "r", "b"].map(|end| format!("t-{name}-{}-{end}", std::process::id()));
        let [here, router, there] = [0, 1, 2].map(|n: usize| Namespace::open_or_make(&names[n]).ok());
        let hosts = Self([here?, router?, there?]);
        let [here, router, there] = &hosts.0;
        router.set_sysctl("net/ipv4/ip_forward", "1").ok()?;
        for (host, net, device) in [(here, 1, "left"), (there, 2, "right")] {
            let peer = host.name();
            router.ip(&["link", "add", device, "type", "veth", "peer", "name", "veth", "netns", peer]).ok()?;
            router.ip(&["address", "add", &format!("10.78.{net}.1/24"), "dev", device]).unwrap();
            router.ip(&["link", "set", device, "up"]).unwrap();
            host.ip(&["address", "add", &format!("10.78.{net}.2/24"), "dev", "veth"]).unwrap();
            host.ip(&["link", "set", "veth", "up"]).unwrap();
            host.ip(&["route", "add", "default", "via", &format!("10.78.{net}.1")]).unwrap();
        }
        Some(hosts)
    }

    fn command(&self, host: usize, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.0[host].name(), program]).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    fn probe(&self, host: &str) -> serde_json::Value {
        report(self.command(0, env!("CARGO_BIN_EXE_timeous"), &["probe", host, "--json"]))
    }
}

#[test]
fn a_router_bears_changed_retransmissions_and_its_firewall_is_found_out() {
    let name = "a_router_bears_changed_retransmissions_and_its_firewall_is_found_out";
    let Some(hosts) = Routed::new("probe") else { return skip(name, "the right to make network namespaces") };
    let listen = |host, arguments: &[&str]| {
        let mut receiver = Running::start(hosts.command(host, env!("CARGO_BIN_EXE_timeous"), arguments));
        receiver.until_it_says(" at ");
        receiver
    };
    let files = Files::new();
    let uri = "timeous://:7000?transport=auto&encryption=off";
    let _receiver = listen(2, &["recv", uri, &files.path("out.h264")]);
    hosts.0[2].ip(&["link", "set", "veth", "mtu", "1400"]).unwrap();
    hosts.0[1].ip(&["link", "set", "right", "mtu", "1400"]).unwrap();

    let open = hosts.probe("10.78.2.2:7000");
    let (borne, why) = verdict(&open, "changed retransmissions");
    assert_eq!((borne, why.contains("arrived changed, behind 1 router")), ("yes", true), "{why}");
    assert_eq!((verdict(&open, "DCCP in UDP").0, open["byteMTU"].as_u64()), ("yes", Some(1400)), "{open}");
    assert_eq!(verdict(&open, "packets of 1500 bytes").0, "no");

    // A server of HTTP tells which version it has by its answer.
    let directory = files.path("");
    let serve = ["-m", "http.server", "8080", "--directory", &directory];
    let mut http = Running::start(hosts.command(2, "python3", &serve));
    crate::support::until("the server listens", || {
        hosts.0[0].within(|| TcpStream::connect(("10.78.2.2", 8080)).is_ok()).unwrap() || !http.is_alive()
    });
    let http = hosts.probe("10.78.2.2:8080");
    assert_eq!(verdict(&http, "changed retransmissions").0, "yes", "{http}");
    assert!(verdict(&http, "changed retransmissions").1.contains("arrived changed"), "{http}");

    Running::start(hosts.command(0, env!("CARGO_BIN_EXE_timeous"), &["probe", "10.78.2.9", "--wait", "20ms"]))
        .ends_with(5);

    let rules = "table ip t { chain c { type filter hook forward priority 0; ip protocol udp drop\n }\n }\n";
    let mut firewall = hosts.command(1, "nft", &["-f", "-"]);
    let Ok(mut nft) = firewall.stdin(Stdio::piped()).spawn() else { return skip(name, "nft") };
    nft.stdin.take().unwrap().write_all(rules.as_bytes()).unwrap();
    assert!(nft.wait().unwrap().success());
    let closed = hosts.probe("10.78.2.2:7000");
    assert_eq!((verdict(&closed, "UDP").0, verdict(&closed, "TCP").0), ("no", "yes"), "{closed}");
    assert_eq!(verdict(&closed, "changed retransmissions").0, "yes", "{closed}");
    assert!(closed["advice"].as_str().unwrap().contains("transport=tcp"), "{closed}");

    // Marks that are erased on the way.
    let rules =
        "flush ruleset\n table ip t { chain c { type filter hook forward priority 0; ip ecn set not-ect\n }\n }\n";
    Running::start(hosts.command(1, "nft", &[rules])).ends_with(0);
    let erased = hosts.probe("10.78.2.2:7000");
    assert_eq!(verdict(&erased, "ECN, to the host").0, "no", "{erased}");
    assert_eq!(verdict(&erased, "ECN, from the host").0, "no", "{erased}");
}
