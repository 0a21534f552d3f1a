//! Metrics: scraped over HTTP and read by an independent parser.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nom_openmetrics::{Family, MetricDescriptor, parser::openmetrics};

use super::{CONTENT_TYPE, LISTED, MetricsAccess, MetricsError, Server, ViewSource, exposition};
use crate::view::{Client, Flow, Health, Macroflow, Totals, View};

const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

fn macroflow(id: u64, host: u32) -> Macroflow {
    Macroflow {
        id,
        address: Ipv4Addr::from(0xc000_0200 + host).into(),
        dscp: 0,
        source: None,
        user: Some(1000),
        controller: "cubic".to_owned(),
        scheduling: "roundRobin".to_owned(),
        window_bytes: 48_000,
        threshold_bytes: None,
        outstanding_bytes: 12_000,
        rate_bps: 1_500_000,
        srtt_us: Some(40_500),
        rttvar_us: 4_000,
        min_rtt_us: None,
        loss_ppm: 12_500,
        grants: 2,
        waiting: 5,
        losses_total: 3,
        marks_total: 4,
        timeouts_total: 1,
        totals: Totals {
            sent_bytes_total: 1_000_000,
            acked_bytes_total: 900_000,
            lost_bytes_total: 10_000,
            refused_total: 7,
        },
        flows: vec![flow(1), flow(2)],
    }
}

fn flow(id: u64) -> Flow {
    Flow {
        id,
        client: 1,
        weight: 1,
        mtu_bytes: 1_200,
        outstanding_bytes: 6_000,
        waiting: 2,
        grants: 1,
        local: None,
        remote: None,
        totals: Totals::default(),
    }
}

fn view(macroflows: Vec<Macroflow>) -> View {
    View {
        version: "0.1.0".to_owned(),
        uptime_ms: 61_500,
        clients: vec![Client { id: 1, pid: 4711, uid: 1000 }],
        macroflows,
        health: Health { violations_total: 1, paths_remembered: 9, path_write_failures_total: 2, qlog_lost_total: 8 },
        ..View::default()
    }
}

fn server(look: impl Fn() -> View + Send + Sync + 'static) -> Server {
    Server::start(ANY, MetricsAccess::Loopback, Arc::new(look)).unwrap()
}

fn scrape(server: &Server) -> String {
    let mut answer = ureq::get(format!("http://{}/metrics", server.address())).call().unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["content-type"], CONTENT_TYPE);
    answer.body_mut().read_to_string().unwrap()
}

#[track_caller]
fn parsed(text: &str) -> Vec<Family<'_>> {
    let (rest, families) = openmetrics(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(rest, "", "all of it is OpenMetrics");
    families
}

/// Returns the value of the only series with this name and these labels.
#[track_caller]
fn value(families: &[Family<'_>], name: &str, labels: &[(&str, &str)]) -> f64 {
    let samples = families.iter().flat_map(|family| &family.samples).filter(|sample| sample.name() == name);
    let with = |(name, value): &(&str, &str), sample: &nom_openmetrics::Sample<'_>| {
        sample.labels().iter().any(|label| label.name == *name && label.value == *value)
    };
    let found: Vec<_> = samples.filter(|sample| labels.iter().all(|label| with(label, sample))).collect();
    assert_eq!(found.len(), 1, "{name} {labels:?}");
    found[0].number()
}

#[test]
fn a_client_scrapes_what_is_seen_and_a_parser_reads_it() {
    let server = server(|| view(vec![macroflow(5, 1)]));
    let text = scrape(&server);
    let families = parsed(&text);
    let of_it = [("address", "192.0.2.1"), ("dscp", "0"), ("user", "1000"), ("part", "0")];
    for (name, expected) in [
        ("timeous_macroflow_flows", 2.0),
        ("timeous_macroflow_window_bytes", 48_000.0),
        ("timeous_macroflow_outstanding_bytes", 12_000.0),
        ("timeous_macroflow_rate_bytes_per_second", 187_500.0),
        ("timeous_macroflow_srtt_seconds", 0.0405),
        ("timeous_macroflow_rttvar_seconds", 0.004),
        ("timeous_macroflow_loss_ratio", 0.0125),
        ("timeous_macroflow_grants", 2.0),
        ("timeous_macroflow_waiting_requests", 5.0),
        ("timeous_macroflow_sent_bytes_total", 1_000_000.0),
        ("timeous_macroflow_acked_bytes_total", 900_000.0),
        ("timeous_macroflow_lost_bytes_total", 10_000.0),
        ("timeous_macroflow_refused_updates_total", 7.0),
        ("timeous_macroflow_losses_total", 3.0),
        ("timeous_macroflow_marks_total", 4.0),
        ("timeous_macroflow_timeouts_total", 1.0),
    ] {
        assert_eq!(value(&families, name, &of_it), expected, "{name}");
    }
    for (name, expected) in [
        ("timeous_uptime_seconds", 61.5),
        ("timeous_clients", 1.0),
        ("timeous_macroflows", 1.0),
        ("timeous_macroflows_listed", 1.0),
        ("timeous_flows", 2.0),
        ("timeous_paths_remembered", 9.0),
        ("timeous_path_write_failures_total", 2.0),
        ("timeous_qlog_lost_events_total", 8.0),
        ("timeous_client_violations_total", 1.0),
    ] {
        assert_eq!(value(&families, name, &[]), expected, "{name}");
    }
    assert_eq!(value(&families, "timeous_build_info", &[("version", "0.1.0")]), 1.0);
    assert!(!text.contains("threshold_bytes{") && !text.contains("min_rtt_seconds{"), "what is unknown has no value");
}

/// Conventions of Prometheus ("Metric and label naming") and OpenMetrics' rules on types and units.
#[test]
fn names_keep_the_conventions() {
    let text = exposition(&view(vec![macroflow(5, 1)]));
    for family in parsed(&text) {
        let mut kind = None;
        let mut helped = false;
        for descriptor in &family.descriptors {
            match descriptor {
                MetricDescriptor::Type { r#type, .. } => kind = Some(format!("{type:?}").to_lowercase()),
                MetricDescriptor::Help { .. } => helped = true,
                MetricDescriptor::Unit { metric, unit } => assert!(metric.ends_with(unit), "{metric} in {unit}"),
            }
        }
        let (kind, name) = (kind.expect("a type"), family.descriptors[0].metric());
        assert!(helped && name.starts_with("timeous_"), "{name}");
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
        for sample in &family.samples {
            assert_eq!(sample.name().ends_with("_total"), kind == "counter", "{name} is a {kind}");
        }
    }
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn the_number_of_series_is_bounded() {
    let many = |n: u32| exposition(&view((0..n).map(|id| macroflow(id.into(), id)).collect()));
    let (full, over) = (many(LISTED as u32), many(50_000));
    let series = |text: &str| parsed(text).iter().map(|family| family.samples.len()).sum::<usize>();
    assert_eq!(series(&full), series(&over));
    let families = parsed(&over);
    assert_eq!(value(&families, "timeous_macroflows", &[]), 50_000.0);
    assert_eq!(value(&families, "timeous_macroflows_listed", &[]), LISTED as f64);
    // The macroflows that exist longest are listed, so that a series lasts as long as its macroflow.
    assert_eq!(value(&families, "timeous_macroflow_flows", &[("address", "192.0.2.0")]), 2.0);
}

#[test]
fn what_was_split_is_told_apart_and_no_series_comes_twice() {
    let mut other = macroflow(4, 1);
    other.user = None;
    let text = exposition(&view(vec![macroflow(9, 1), macroflow(5, 1), other]));
    let families = parsed(&text);
    let windows =
        families.iter().flat_map(|family| &family.samples).filter(|s| s.name() == "timeous_macroflow_window_bytes");
    let labels: BTreeSet<_> = windows.map(|s| format!("{:?}", s.labels())).collect();
    assert_eq!(labels.len(), 3);
    assert_eq!(value(&families, "timeous_macroflow_window_bytes", &[("user", "host"), ("part", "0")]), 48_000.0);
    assert_eq!(value(&families, "timeous_macroflow_window_bytes", &[("user", "1000"), ("part", "1")]), 48_000.0);
}

#[test]
fn an_address_that_others_reach_is_refused_unless_told() {
    let look: ViewSource = Arc::new(View::default);
    let anywhere = "0.0.0.0:0".parse().unwrap();
    let error = Server::start(anywhere, MetricsAccess::Loopback, Arc::clone(&look)).unwrap_err();
    assert!(matches!(error, MetricsError::NotLoopback(address) if address == anywhere), "{error}");
    assert!(error.to_string().contains("127.0.0.1"), "{error}");
    let told = Server::start(anywhere, MetricsAccess::Beyond, Arc::clone(&look)).unwrap();
    assert_ne!(told.address().port(), 0);
    let mapped: SocketAddr = "[::ffff:127.0.0.1]:0".parse().unwrap();
    assert!(!matches!(Server::start(mapped, MetricsAccess::Loopback, look), Err(MetricsError::NotLoopback(_))));
}

#[test]
fn a_port_in_use_is_the_environments_fault() {
    let first = server(View::default);
    let error = Server::start(first.address(), MetricsAccess::Loopback, Arc::new(View::default)).unwrap_err();
    assert!(matches!(error, MetricsError::Io { .. }), "{error}");
    let address = first.address();
    drop(first);
    Server::start(address, MetricsAccess::Loopback, Arc::new(View::default))
        .expect("the port is free when the server is gone");
}

#[test]
fn many_scrapes_are_few_looks() {
    let looks = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&looks);
    let server = server(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        View::default()
    });
    let begun = timeous_engine::clock::now();
    (0..200).for_each(|_| drop(scrape(&server)));
    let quarters = (timeous_engine::clock::now() - begun).as_millis() / 250;
    assert!(looks.load(Ordering::Relaxed) <= quarters + 1, "at most one look in a quarter of a second");
}

/// Returns the status line of the server's answer to `request`.
fn ask(server: &Server, request: &str) -> String {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn what_is_no_scrape_is_told_so() {
    let server = server(View::default);
    let ask = |first: &str, host: &str| {
        ask(&server, &format!("{first} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"))
    };
    assert_eq!(ask("GET /metrics", "localhost:9100"), "HTTP/1.1 200 OK");
    assert_eq!(ask("HEAD /metrics", "[::1]:9100"), "HTTP/1.1 200 OK");
    assert_eq!(ask("GET /", "localhost"), "HTTP/1.1 404 Not Found");
    assert_eq!(ask("POST /metrics", "127.0.0.1"), "HTTP/1.1 405 Method Not Allowed");
    assert_eq!(ask("GET /metrics", "rebound.example.org"), "HTTP/1.1 403 Forbidden");
    let long = "x".repeat(100_000);
    assert!(!ask(&format!("GET /{long}"), "127.0.0.1").contains("200"));
}

#[test]
fn a_server_ends_though_callers_hold_all_its_places() {
    let server = server(View::default);
    let idle: Vec<_> = (0..40).map(|_| TcpStream::connect(server.address()).unwrap()).collect();
    let begun = timeous_engine::clock::now();
    drop(server);
    let took = timeous_engine::clock::now() - begun;
    assert!(took < super::http::PATIENCE.into(), "it does not wait until they are shown out: {took:?}");
    drop(idle);
}

#[test]
fn slow_readers_do_not_close_it_to_others() {
    let server = server(View::default);
    let slow: Vec<_> = (0..60)
        .map(|n| {
            let mut caller = TcpStream::connect(server.address()).unwrap();
            let request = if n % 2 == 0 { "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" } else { "GET /" };
            caller.write_all(request.as_bytes()).unwrap();
            caller
        })
        .collect();
    let begun = timeous_engine::clock::now();
    assert!(scrape(&server).contains("# EOF"));
    let took = timeous_engine::clock::now() - begun;
    assert!(took < timeous_core::Duration::from_secs(2), "{took:?}");
    drop(slow);
}
