//! DCCP directly over IP between two network namespaces, checked with tshark.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use timeous_net::emulator::Namespace;

use crate::support::{DCCP_COMPLAINTS, Files, Running, assert_is_beginning_of, clip, skip, until};

/// Two hosts with a link: 10.77.0.1 and 10.77.0.2, fd77::1 and fd77::2.
struct Hosts([Namespace; 2]);

impl Hosts {
    /// Creates the hosts; `None` without the permission.
    fn new(name: &str) -> Option<Self> {
        let names = ["a", "b"].map(|end| format!("t-{name}-{}-{end}", std::process::id()));
        let [here, there] = [0, 1].map(|end: usize| Namespace::open_or_make(&names[end]).ok());
        let hosts = Self([here?, there?]);
        let peer = hosts.0[1].name();
        hosts.0[0].ip(&["link", "add", "veth", "type", "veth", "peer", "name", "veth", "netns", peer]).ok()?;
        for (host, n) in hosts.0.iter().zip(1..) {
            host.ip(&["address", "add", &format!("10.77.0.{n}/24"), "dev", "veth"]).unwrap();
            host.ip(&["address", "add", &format!("fd77::{n}/64"), "dev", "veth", "nodad"]).unwrap();
            host.ip(&["link", "set", "veth", "up"]).unwrap();
        }
        Some(hosts)
    }

    /// Starts a program on one of the hosts.
    fn start(&self, host: usize, program: &str, arguments: &[&str]) -> Running {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.0[host].name(), program]).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        Running::start(command)
    }

    fn timeous(&self, host: usize, arguments: &[&str]) -> Running {
        self.start(host, env!("CARGO_BIN_EXE_timeous"), arguments)
    }
}

/// Fields of the packets that `filter` selects.
fn tshark(capture: &str, filter: &str, fields: &[&str]) -> Vec<Vec<String>> {
    let mut command = Command::new("tshark");
    command.args(["-r", capture, "-n", "-o", "ip.check_checksum:TRUE", "-o", "dccp.check_checksum:TRUE"]);
    command.args(["-Y", filter, "-T", "fields"]).args(fields.iter().flat_map(|field| ["-e", field]));
    let output = command.output().unwrap();
    assert!(output.status.success(), "tshark: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

#[test]
fn a_stream_without_udp_arrives_and_tshark_reads_every_packet() {
    let name = "a_stream_without_udp_arrives_and_tshark_reads_every_packet";
    let Some(hosts) = Hosts::new("native") else { return skip(name, "the right to make network namespaces") };
    let files = Files::new();
    let sent = clip(60);
    let source = files.write("clip.h264", &sent);
    for (address, at) in [("10.77.0.2", "10.77.0.2"), ("[fd77::2]", "fd77::2")] {
        let [capture, out] = ["wire.pcapng", "out.h264"].map(|name| files.path(&format!("{at}-{name}")));
        let filter = ["-q", "-i", "veth", "-f", "ip proto 33 or ip6 proto 33", "-w", &capture];
        let mut wire = hosts.start(0, "dumpcap", &filter);
        // dumpcap writes the file header when it is ready.
        let is_ready = || std::fs::metadata(&capture).is_ok_and(|file| file.len() > 0);
        until("the capture begins", || is_ready() || !wire.is_alive());
        if !is_ready() {
            return skip(name, "dumpcap");
        }
        let mut receiver =
            hosts.timeous(1, &["recv", "timeous://:5004?latency=3s&reconnect=off&encap=none&encryption=off", &out]);
        // Without a listener, Linux answers "protocol not available".
        let raw = |host: usize| {
            let tables = ["net/raw", "net/raw6"].map(|table| Path::new("/proc/thread-self").join(table));
            let read = move || tables.map(|table| std::fs::read_to_string(table).unwrap().lines().count());
            hosts.0[host].within(read).unwrap().iter().sum::<usize>()
        };
        until("the receiver listens", || raw(1) >= 4 || !receiver.is_alive());
        let uri = format!("timeous://{address}:5004?latency=3s&reconnect=off&encap=none&encryption=off");
        hosts.timeous(0, &["send", &source, &uri]).ends_with(0);
        receiver.ends_with(0);
        assert!(assert_is_beginning_of(Path::new(&out), &sent) > 50);
        // Packets appear in the file some time after their capture.
        let has_the_end = || {
            let mut command = Command::new("tshark");
            let output = command.args(["-r", &capture, "-n", "-Y", "dccp.type == 7"]).output().unwrap();
            !output.stdout.is_empty()
        };
        until("the whole stream is in the capture", has_the_end);
        wire.signal(Signal::INT);
        wire.ends_with(0);

        let wrong = format!("(ip && ip.checksum.status != \"Good\") || {DCCP_COMPLAINTS}");
        let complaints = tshark(&capture, &wrong, &["frame.number", "_ws.col.Info", "_ws.expert.message"]);
        assert!(complaints.is_empty(), "{complaints:?}");
        let rows = tshark(
            &capture,
            "dccp",
            &["dccp.type", "ip.dsfield.ecn", "ipv6.tclass.ecn", "dccp.dstport", "dccp.srcport"],
        );
        let seen: BTreeSet<&str> = rows.iter().map(|row| &row[0][..]).collect();
        assert!(["0", "1", "3", "6", "7"].iter().all(|kind| seen.contains(kind)), "{seen:?}");
        let data: Vec<_> = rows.iter().filter(|row| matches!(&row[0][..], "2" | "4")).collect();
        assert!(data.len() > 60, "every frame has a packet or more");
        // ECT(0), in both directions of the one port: the receiver sends, too.
        for row in data {
            assert!((row[1] == "2" || row[2] == "2") && (row[3] == "5004" || row[4] == "5004"), "{row:?}");
        }
    }
}

#[test]
fn the_packet_size_of_the_path_is_found_with_udp_and_without() {
    let name = "the_packet_size_of_the_path_is_found_with_udp_and_without";
    let Some(hosts) = Hosts::new("sizes") else { return skip(name, "the right to make network namespaces") };
    let files = Files::new();
    let source = files.write("clip.h264", &clip(60));
    for mtu in ["1280", "1400", "1500"] {
        for host in &hosts.0 {
            host.ip(&["link", "set", "veth", "mtu", mtu]).unwrap();
        }
        for (encapsulation, port, headers) in [("none", 5004, 20), ("udp", 6511, 28)] {
            let options = format!("latency=3s&reconnect=off&encap={encapsulation}&encryption=off");
            let [out, stats] =
                ["out.h264", "stats.json"].map(|name| files.path(&format!("{mtu}-{encapsulation}-{name}")));
            let mut receiver = hosts.timeous(1, &["recv", &format!("timeous://:{port}?{options}"), &out]);
            receiver.until_it_says("listening");
            let uri = format!("timeous://10.77.0.2:{port}?{options}");
            hosts.timeous(0, &["send", &source, &uri, "--stats", &stats, "--stats-interval", "100ms"]).ends_with(0);
            receiver.ends_with(0);
            let text = std::fs::read_to_string(&stats).unwrap();
            let expected = format!("\"byteMSS\":{}", mtu.parse::<usize>().unwrap() - headers);
            assert!(text.replace(' ', "").contains(&expected), "{encapsulation}, {mtu}: {text}");
        }
    }
}

#[test]
fn without_the_right_the_tool_says_what_to_do() {
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-net_raw", "--inh-caps=-net_raw", env!("CARGO_BIN_EXE_timeous")]);
    command.args(["recv", "timeous://:5004?encap=none", "-"]).stdin(Stdio::null()).stdout(Stdio::null());
    if !rustix::process::geteuid().is_root() {
        // Other users lack the permission anyway.
        command = crate::support::command(&["recv", "timeous://:5004?encap=none", "-"]);
    }
    let mut receiver = Running::start(command);
    let status = receiver.end();
    let errors = receiver.errors();
    assert!(!status.success() && errors.contains("cap_net_raw") && errors.contains("encap=udp"), "{errors}");
}
