//! qlog files: read by an independent library, by this project's reader, and record by record.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use qlog::events::EventData;
use qlog::reader::{Event, QlogSeqReader};
use serde_json::{Value, json};
use timeous_cm::{ClientId, Destination, FlowId, Happening, Implausible, Loss, MacroflowId, Traced, User};
use timeous_core::{Arrived, Duration, Instant, PathState, Rate};

use super::{Bounds, Log, NAMESPACE};
use crate::wall::WallTime;

const START: Instant = Instant::from_nanos(5_000_000_000);
const WALL: WallTime = WallTime::since_epoch(Duration::from_secs(1_705_314_600));

fn to() -> Destination {
    Destination { dscp: 46, user: Some(User(1000)), ..Destination::from(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1))) }
}

fn traced(millis: u64, what: Happening) -> Traced {
    let at = START + Duration::from_millis(millis);
    Traced { at, macroflow: MacroflowId::from_u64(3), flow: Some(FlowId::from_u64(7)), what }
}

fn state() -> PathState {
    PathState {
        rate: Rate::from_kbps(1_500),
        srtt: Some(Duration::from_micros(40_500)),
        rttvar: Duration::from_millis(4),
        min_rtt: Some(Duration::from_millis(30)),
        latest_rtt: None,
        window: 48_000,
        outstanding: 12_000,
        loss_ppm: 0,
        delivered: None,
        contended: false,
        arrivals: None,
    }
}

/// Returns the records of a JSON text sequence (RFC 7464): each begins with a record separator and ends with a line
/// feed.
#[track_caller]
fn records(path: &Path) -> Vec<Value> {
    let bytes = fs::read(path).unwrap();
    assert_eq!((bytes.first(), bytes.last()), (Some(&0x1e), Some(&b'\n')));
    let texts = bytes.split(|&byte| byte == 0x1e).skip(1);
    texts
        .map(|text| serde_json::from_slice(text.strip_suffix(b"\n").expect("ends with a line feed")).unwrap())
        .collect()
}

#[test]
fn each_happening_is_an_event_with_its_group_and_its_time() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("cm.sqlog");
    let log = Log::open(&path, START, WALL).unwrap();
    let happenings = [
        Happening::MacroflowCreated { destination: to() },
        Happening::Resumed { window: 24_000 },
        Happening::Opened { destination: to(), client: ClientId::from_u64(2) },
        Happening::Granted,
        Happening::Notified { bytes: 1_200 },
        Happening::Metrics { state: state(), threshold: Some(30_000) },
        Happening::Congestion { kind: Loss::Transient },
        Happening::Congestion { kind: Loss::Ecn },
        Happening::Congestion { kind: Loss::Persistent },
        Happening::Congestion { kind: Loss::None },
        Happening::Refused(Implausible::MoreThanSent { claimed: 9, outstanding: 3 }),
        Happening::Split,
        Happening::Merged,
        Happening::Closed,
        Happening::Held { user: User(7), rate: Some(Rate::from_kbps(800)) },
        Happening::Arrived(Arrived {
            predicted: START + Duration::from_millis(9),
            actual: START + Duration::from_millis(11),
        }),
    ];
    for (millis, what) in happenings.iter().enumerate() {
        log.write(&traced(millis as u64, *what));
    }
    assert_eq!(log.lost(), 0);
    drop(log);
    let records = records(&path);
    let header = &records[0];
    assert_eq!(header["file_schema"], "urn:ietf:params:qlog:file:sequential");
    assert_eq!(header["serialization_format"], "JSON-SEQ");
    assert_eq!(header["trace"]["event_schemas"], json!(["urn:ietf:params:qlog:events:quic-12", NAMESPACE]));
    assert_eq!(header["trace"]["common_fields"]["reference_time"]["wall_clock_time"], "2024-01-15T10:30:00Z");
    let names: Vec<_> = records[1..].iter().map(|event| event["name"].as_str().unwrap()).collect();
    let expected = [
        "timeous:macroflow_created",
        "timeous:macroflow_resumed",
        "timeous:flow_opened",
        "timeous:granted",
        "timeous:notified",
        "quic:recovery_metrics_updated",
        "quic:congestion_state_updated",
        "quic:congestion_state_updated",
        "quic:congestion_state_updated",
        "timeous:loss_without_congestion",
        "timeous:update_refused",
        "timeous:flow_split",
        "timeous:flow_merged",
        "timeous:flow_closed",
        "timeous:macroflow_held",
        "timeous:packet_arrived",
    ];
    assert_eq!(names, expected);
    for (millis, event) in records[1..].iter().enumerate() {
        assert_eq!((&event["time"], &event["group_id"]), (&json!(millis as f64), &json!("3")), "{event}");
    }
    assert_eq!(records[3]["data"], json!({ "address": "192.0.2.1", "dscp": 46, "user": 1000, "flow": 7, "client": 2 }));
    assert_eq!(records[6]["data"]["flow"], 7);
    assert_eq!(records[7]["data"], json!({ "new": "recovery" }));
    assert_eq!(records[8]["data"], json!({ "new": "recovery", "trigger": "ecn" }));
    assert_eq!(records[15]["data"], json!({ "user": 7, "rate_bps": 800_000 }));
    assert_eq!(records[16]["data"], json!({ "flow": 7, "predicted": 9.0, "actual": 11.0 }));
    assert_eq!(records[9]["data"], json!({ "new": "slow_start", "trigger": "persistent_congestion" }));
}

#[test]
fn a_reader_of_others_reads_it() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("cm.sqlog");
    let log = Log::open(&path, START, WALL).unwrap();
    log.write(&traced(1, Happening::Metrics { state: state(), threshold: None }));
    log.write(&traced(2, Happening::Granted));
    log.write(&traced(3, Happening::Congestion { kind: Loss::Ecn }));
    drop(log);
    let reader = QlogSeqReader::with_file(&path).unwrap();
    assert_eq!(reader.qlog.trace.vantage_point.as_ref().unwrap().name.as_deref(), Some("timeous"));
    let events: Vec<_> = reader.collect();
    let [Event::Qlog(metrics), Event::Json(granted), Event::Qlog(congestion)] = &events[..] else {
        panic!("two events of the schema, and one of our own between: {events:?}")
    };
    let EventData::QuicMetricsUpdated(data) = &metrics.data else { panic!("{metrics:?}") };
    assert_eq!((data.congestion_window, data.bytes_in_flight, data.ssthresh), (Some(48_000), Some(12_000), None));
    assert_eq!((data.smoothed_rtt, data.min_rtt, data.pacing_rate), (Some(40.5), Some(30.0), Some(1_500_000)));
    assert_eq!(granted.name, "timeous:granted");
    assert_eq!(congestion.time, 3.0);
}

#[test]
fn files_are_bounded_in_size_and_number() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("cm.sqlog");
    let bounds = Bounds { bytes: 4_096, kept: 2 };
    let log = Log::bounded(&path, bounds, START, WALL).unwrap();
    for n in 0..400 {
        log.write(&traced(n, Happening::Granted));
    }
    drop(log);
    let mut names: Vec<_> =
        fs::read_dir(room.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["cm.1.sqlog", "cm.2.sqlog", "cm.sqlog"]);
    let mut times = Vec::new();
    for name in ["cm.2.sqlog", "cm.1.sqlog", "cm.sqlog"] {
        let file = room.path().join(name);
        assert!(fs::metadata(&file).unwrap().len() <= 4_096);
        let records = records(&file);
        assert!(records[0]["trace"].is_object(), "each begins with a header");
        times.extend(records[1..].iter().map(|event| event["time"].as_f64().unwrap()));
    }
    assert_eq!(times.last(), Some(&399.0));
    assert!(times.is_sorted() && times.windows(2).all(|pair| pair[1] - pair[0] == 1.0), "none is missing in between");
}

#[test]
fn a_file_that_is_there_is_kept() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("trace");
    drop(Log::open(&path, START, WALL).unwrap());
    let first = fs::read(&path).unwrap();
    drop(Log::open(&path, START, WALL).unwrap());
    assert_eq!(fs::read(room.path().join("trace.1")).unwrap(), first);
}

#[test]
fn who_writes_too_fast_does_not_wait_and_the_file_says_what_is_missing() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("cm.sqlog");
    let log = Log::open(&path, START, WALL).unwrap();
    let mut written = 0;
    // The loop is faster than the thread that formats records: the queue fills.
    while log.lost() == 0 {
        log.write(&traced(written, Happening::Granted));
        written += 1;
    }
    // Waits until the queue has room again, so that the last loss is reported, too.
    let mut before = 0;
    while log.lost() > before {
        before = log.lost();
        std::thread::yield_now();
        log.write(&traced(written, Happening::Closed));
    }
    let lost = log.lost();
    drop(log);
    let mut told = 0;
    let mut events = 0;
    for name in ["cm.3.sqlog", "cm.2.sqlog", "cm.1.sqlog", "cm.sqlog"] {
        let file = room.path().join(name);
        for record in if file.exists() { records(&file) } else { Vec::new() } {
            match record["name"].as_str() {
                Some("timeous:events_lost") => told += record["data"]["count"].as_u64().unwrap(),
                Some(_) => events += 1,
                None => {}
            }
        }
    }
    assert_eq!(told, lost);
    assert_eq!(events, written, "what was not lost is there: one of them was, and one was added");
}

#[test]
fn a_file_that_cannot_be_made_is_the_environments_fault() {
    let room = tempfile::tempdir().unwrap();
    let error = Log::open(&room.path().join("not there/cm.sqlog"), START, WALL).unwrap_err();
    assert!(error.to_string().contains("not there/cm.sqlog"), "{error}");
}

#[test]
fn what_the_manager_has_lost_is_lost_too_and_counted_once() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("cm.sqlog");
    let log = Log::open(&path, START, WALL).unwrap();
    [0, 5, 5, 12].into_iter().for_each(|total| log.missed(total));
    log.write(&traced(1, Happening::Granted));
    assert_eq!(log.lost(), 12);
    drop(log);
    assert_eq!(records(&path)[1]["data"], json!({ "count": 12 }));
}

/// A log at /dev/null renamed the host's device, and one at a pipe the pipe.
#[test]
fn only_regular_files_are_renamed() {
    let room = tempfile::tempdir().unwrap();
    let [pipe, directory] = ["pipe", "directory"].map(|name| room.path().join(name));
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    fs::create_dir(&directory).unwrap();
    for path in [pipe, directory] {
        let error = Log::open(&path, START, WALL).unwrap_err().to_string();
        assert!(error.contains(&*path.to_string_lossy()) && error.contains("name a file"), "{error}");
        assert!(path.exists());
    }
    assert_eq!(fs::read_dir(room.path()).unwrap().count(), 2);
}
