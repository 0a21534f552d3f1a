//! Statistics files: machine-readable, with SRT's field names, and expired packets separate from lost ones.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::{Map, Value};
use timeous::core::Duration;

use crate::support::{Files, Running, clip, emulate, free_port, is_installed, size, skip, sleep, timeous};
use crate::transport_stream::{H264_AAC, encode};

/// Records of a file with one JSON object per line.
fn json(path: &str) -> Vec<Map<String, Value>> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))).collect()
}

/// Statistics of each stream of the source, in the last record of a file.
pub(crate) fn tracks(path: &str) -> Vec<Map<String, Value>> {
    let last = json(path).pop().unwrap();
    last["tracks"].as_array().unwrap().iter().map(|track| track.as_object().unwrap().clone()).collect()
}

fn number(record: &Map<String, Value>, name: &str) -> u64 {
    record.get(name).unwrap_or_else(|| panic!("{name} in {record:?}")).as_u64().unwrap()
}

/// Sends 60 frames of the clip over a link of a third of its rate; returns the sender's and receiver's statistics
/// files, and the sender's journal. The queue holds an initial window: without the first frame, later ones would be
/// useless.
fn run(files: &Files, format: &str, policy: &str) -> [String; 3] {
    let (near, far) = (free_port(), free_port());
    let paths = ["sender", "receiver", "journal"].map(|name| files.path(name));
    let [sent, received, journal] = &paths;
    let source = files.write("clip.h264", &clip(60));
    let _link = emulate(near, far, &["--rate", "700k", "--delay", "20ms", "--queue", "250ms", "--back-delay", "20ms"]);
    let meter = ["--stats-format", format, "--stats-interval", "100ms", "--stats"];
    let from = format!("timeous://:{far}?latency=300ms&reconnect=off");
    let mut receiver = timeous(&[&["recv", &from, &files.path("out.h264")], &meter[..], &[received]].concat());
    receiver.until_it_says("listening at");
    // Records are also written while no peer is connected.
    sleep(Duration::from_millis(250));
    let to = format!("timeous://127.0.0.1:{near}?latency=300ms&reconnect=off&policy={policy}");
    let mut sender = timeous(&[&["send", &source, &to, "--journal", journal], &meter[..], &[sent]].concat());
    sender.ends_with(0);
    receiver.ends_with(0);
    paths
}

/// Last columns of a journal's rows: arrival, predicted arrival and fate.
fn settled(journal: &str) -> Vec<[String; 3]> {
    let row = |row: &str| {
        let fields: Vec<_> = row.rsplit(',').take(3).map(str::to_owned).collect();
        fields.try_into().expect("there are more columns")
    };
    journal.lines().skip(1).map(row).collect()
}

#[test]
fn a_qlog_and_a_journal_have_predicted_and_actual_arrivals_without_a_daemon() {
    let files = Files::new();
    let source = files.write("clip.h264", &clip(30));
    for key in ["", "&transport=tcp"] {
        let port = free_port();
        let sink = files.path(&format!("out{}.h264", key.len()));
        let mut receiver = timeous(&["recv", &format!("timeous://:{port}?reconnect=off{key}"), &sink]);
        receiver.until_it_says("listening at");
        let log = files.path(&format!("log{}.sqlog", key.len()));
        let to = format!("timeous://127.0.0.1:{port}?reconnect=off{key}");
        let journal = files.path(&format!("journal{}.csv", key.len()));
        timeous(&["send", &source, &to, "--qlog", &log, "--journal", &journal]).ends_with(0);
        receiver.ends_with(0);
        let text = std::fs::read_to_string(&log).unwrap();
        let events = text.split('\u{1e}').filter(|record| !record.trim().is_empty());
        let events: Vec<Value> = events.map(|record| serde_json::from_str(record).unwrap()).collect();
        let arrived: Vec<_> = events.iter().filter(|event| event["name"] == "timeous:packet_arrived").collect();
        assert!(!arrived.is_empty(), "{key}: {} events", events.len());
        let has_both = |event: &&Value| event["data"]["predicted"].is_number() && event["data"]["actual"].is_number();
        assert!(arrived.iter().all(has_both), "{arrived:?}");
        let rows = settled(&std::fs::read_to_string(&journal).unwrap());
        assert!(rows.iter().any(|[arrived, _, _]| !arrived.is_empty()), "{key}: {} rows", rows.len());
    }
    let refused = timeous(&["send", &source, "udp://127.0.0.1:9", "--qlog", "x.sqlog"]).ends_with(2);
    assert!(refused.contains("leave it out"), "{refused}");
}

#[test]
fn json_has_srt_s_names_and_tells_expired_from_lost() {
    let files = Files::new();
    let [sent, received, journal] = run(&files, "json", "deadline");
    let records = json(&sent);
    let last = records.last().unwrap();
    for name in ["msTimeStamp", "pktSentTotal", "byteSentTotal", "pktSndLossTotal", "pktRetransTotal", "msRTT"] {
        assert!(last.contains_key(name), "{name} in {last:?}");
    }
    for name in ["pktSndDropTotal", "mbpsBandwidth", "mbpsSendRate", "pktSndBuf", "byteSndBuf", "msSndBuf"] {
        assert!(last.contains_key(name), "{name} in {last:?}");
    }
    let rows = std::fs::read_to_string(&journal).unwrap();
    let settled = settled(&rows);
    let fates = |wanted: &str| settled.iter().filter(|[_, _, fate]| fate == wanted).count() as u64;
    for [arrived, predicted, fate] in &settled {
        assert_eq!(arrived.is_empty(), predicted.is_empty(), "both or none");
        assert!(arrived.is_empty() || fate == "acked", "{fate} at {arrived}");
    }
    for (name, fate) in [
        ("pktAckedTotal", "acked"),
        ("pktSndLossTotal", "lost"),
        ("pktSndExpiredTotal", "expired"),
        ("pktSndTooLateTotal", "too_late"),
        ("pktSndReferenceLostTotal", "reference_lost"),
    ] {
        // Beyond the journal's packets, the ends exchange sender reports and latency messages, two packets per second, and one at the end.
        let beside = number(last, name).checked_sub(fates(fate));
        let most = 2 * (number(last, "msTimeStamp") / 1_000 + 1) + 1;
        assert!(beside.is_some_and(|beside| beside <= most), "{name} is what the journal counts as {fate}: {last:?}");
    }
    let late = number(last, "pktSndExpiredTotal") + number(last, "pktSndTooLateTotal");
    assert!(late > 0, "a third of the rate leaves no packet late: {last:?}");
    let all = rows.lines().count() as u64 - 1;
    let acked_or_lost = number(last, "pktAckedTotal") + number(last, "pktSndLossTotal");
    assert!(acked_or_lost + number(last, "pktSndDropTotal") >= all, "each packet has one fate");
    assert_eq!(number(last, "framesSent"), 60);
    assert!((1..60).contains(&number(last, "iFramesSent")));

    assert!(records.len() > 2, "there is a record each interval");
    let times: Vec<u64> = records.iter().map(|record| number(record, "msTimeStamp")).collect();
    assert!(times.is_sorted(), "{times:?}");
    let received = json(&received);
    let last = received.last().unwrap();
    for name in ["pktRecvTotal", "byteRecvTotal", "pktRcvLossTotal", "pktRcvBelated", "mbpsRecvRate"] {
        assert!(last.contains_key(name), "{name} in {last:?}");
    }
    assert!(number(last, "pktRecvTotal") > 0);
}

/// Frames that the sender gave up behind the last one that came were in no count of the receiver, and the totals of a receiver that went
/// were zeros.
#[test]
fn the_totals_of_both_ends_add_up() {
    let files = Files::new();
    let [sent, received, journal] = run(&files, "json", "plan");
    let (sent, received) = (json(&sent).pop().unwrap(), json(&received).pop().unwrap());
    assert_sender_adds_up(&sent, &journal);
    let came = FRAME_FATES.iter().map(|fate| number(&received, &format!("frames{fate}"))).sum::<u64>();
    assert_eq!((number(&sent, "framesSent"), came), (60, 60), "{sent:?}, {received:?}");
    assert!((1..60).contains(&number(&received, "framesMissing")), "{received:?}");

    // The receiver goes in the middle.
    let (near, far) = (free_port(), free_port());
    let [sent, journal, out] = ["sent", "rows", "other.h264"].map(|name| files.path(name));
    let source = files.write("clip.h264", &clip(200));
    let _link = emulate(near, far, &["--rate", "1M", "--delay", "20ms", "--queue", "250ms", "--back-delay", "20ms"]);
    let mut receiver = timeous(&["recv", &format!("timeous://:{far}?latency=300ms&reconnect=off"), &out]);
    receiver.until_it_says("listening at");
    let to = format!("timeous://127.0.0.1:{near}?latency=300ms&reconnect=off");
    let mut sender = timeous(&["send", &source, &to, "--stats", &sent, "--journal", &journal]);
    receiver.until_it_says("pictures:");
    sleep(Duration::from_secs(1));
    receiver.stop();
    let said = sender.ends_with(5);
    assert!(said.contains("of them given up"), "{said}");
    let sent = json(&sent).pop().unwrap();
    assert!(number(&sent, "pktAckedTotal") > 0, "{sent:?}");
    assert_sender_adds_up(&sent, &journal);
}

/// Frames and streams were counted with those of receivers that had left, packets were not; of the one that left nothing was told.
#[test]
fn each_record_is_of_one_receiver() {
    let (files, port) = (Files::new(), free_port());
    let [source, sent] = ["clip.h264", "sent"].map(|name| files.path(name));
    std::fs::write(&source, clip(200)).unwrap();
    let uri = format!("timeous://:{port}?latency=500ms");
    let mut sender = timeous(&["send", &source, &uri, "--stats", &sent]);
    sender.until_it_says("waiting for receivers at");
    let receive = |name: &str| {
        let mut receiver =
            timeous(&["recv", &format!("timeous://127.0.0.1:{port}?latency=500ms&reconnect=off"), &files.path(name)]);
        receiver.until_it_says("pictures:");
        receiver
    };
    let mut first = receive("first.h264");
    sleep(Duration::from_secs(1));
    first.stop();
    sender.until_it_says("is gone");
    let mut second = receive("second.h264");
    let said = sender.ends_with(0);
    second.ends_with(0);
    let records = json(&sent);
    let mut peers: Vec<&Value> = records.iter().map(|record| &record["peer"]).filter(|peer| peer.is_string()).collect();
    peers.dedup();
    assert_eq!(peers.len(), 2, "{peers:?}");
    let mut frames = 0;
    for peer in peers {
        let of_peer: Vec<_> = records.iter().filter(|record| record["peer"] == *peer).collect();
        for record in &of_peer {
            let track = record["tracks"].as_array().unwrap().first();
            let [handed, acked] =
                ["framesSent", "pktAckedTotal"].map(|name| track.map_or(0, |track| track[name].as_u64().unwrap()));
            assert_eq!(handed, number(record, "framesSent"), "{record:?}");
            assert!(acked <= number(record, "pktAckedTotal"), "{record:?}");
        }
        let last = number(of_peer.last().unwrap(), "framesSent");
        let told = format!("{}: {last} frames, ", peer.as_str().unwrap());
        assert!(last > 0 && said.contains(&told), "{told}: {said}");
        frames += last;
    }
    assert!(frames <= 200, "{frames}: {said}");
}

/// The frames of the last latency were in no count: it told of the end at once.
#[test]
fn the_end_of_a_stream_is_told_with_all_its_frames() {
    let files = Files::new();
    let Some(ts) = encode(&files, &H264_AAC) else {
        return skip("the_end_of_a_stream_is_told_with_all_its_frames", "ffmpeg");
    };
    for (source, sink) in [(files.write("clip.h264", &clip(60)), "out.h264"), (ts, "out.ts")] {
        let port = free_port();
        let uri = |host: &str, keys: &str| format!("timeous://{host}:{port}?latency=2s{keys}");
        let mut receiver = timeous(&["recv", &uri("", ""), &files.path(sink)]);
        receiver.until_it_says("listening at");
        let sent = files.path("sent");
        timeous(&["send", &source, &uri("127.0.0.1", "&reconnect=off"), "--stats", &sent]).ends_with(0);
        receiver.until_ended(1);
        let all = number(&json(&sent).pop().unwrap(), "framesSent");
        let said = receiver.stop();
        for told in ["the stream has ended", "the end"] {
            assert!(said.contains(&format!("{told}: {all} frames: {all} in time")), "{sink}, {all}: {said}");
        }
    }
}

/// Fates of a frame that the receiver knows of.
const FRAME_FATES: [&str; 6] = ["Decodable", "Incomplete", "Late", "ReferenceMissing", "Unreadable", "Missing"];
/// Fates of a packet, and packets that have none yet.
const PACKET_FATES: [&str; 8] = [
    "pktPending",
    "pktAckedTotal",
    "pktSndLossTotal",
    "pktSndExpiredTotal",
    "pktSndTooLateTotal",
    "pktSndReferenceLostTotal",
    "pktSndPolicyTotal",
    "pktSndOtherTotal",
];

/// Checks that each packet of a journal is in one count of the only stream, and that all packets have those and control messages.
fn assert_sender_adds_up(last: &Map<String, Value>, journal: &str) {
    let rows = std::fs::read_to_string(journal).unwrap().lines().count() as u64 - 1;
    let track = last["tracks"][0].as_object().unwrap();
    let packets: u64 = PACKET_FATES.iter().map(|fate| number(track, fate)).sum();
    assert_eq!(packets, rows, "{track:?}");
    let all =
        ["pktAckedTotal", "pktSndLossTotal", "pktSndDropTotal"].iter().map(|name| number(last, name)).sum::<u64>();
    let control = 2 * (number(last, "msTimeStamp") / 1_000 + 1) + 1;
    assert!((rows..=rows + control).contains(&(all + number(track, "pktPending"))), "{rows} packets: {last:?}");
    assert!(number(track, "framesGivenUp") <= number(track, "framesSent"), "{track:?}");
    assert_eq!(number(track, "framesSent"), number(last, "framesSent"), "{last:?}");
}

#[test]
fn csv_has_the_same_columns_in_every_row() {
    let files = Files::new();
    let [sent, received, _] = run(&files, "csv", "frames");
    for (path, known) in [(sent, "pktSndExpiredTotal"), (received, "framesDecodable")] {
        let mut reader = csv::Reader::from_path(&path).unwrap();
        let header: BTreeSet<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
        assert!(header.contains(known) && header.contains("msTimeStamp"), "{header:?}");
        let rows: Vec<_> = reader.records().collect::<Result<_, _>>().expect("every row has all columns");
        assert!(rows.len() > 2);
        let time = reader.headers().unwrap().iter().position(|name| name == "msTimeStamp").unwrap();
        let times: Vec<u64> = rows.iter().map(|row| row[time].parse().unwrap()).collect();
        assert!(times.is_sorted(), "{times:?}");
        for row in &rows {
            for (name, field) in reader.headers().unwrap().iter().zip(row) {
                // Unknown values and text fields.
                if field.is_empty()
                    || ["transport", "lateChoice", "delivery", "repair", "peerStalled", "peer"].contains(&name)
                {
                    assert!(!field.contains(['"', ',']), "{name}={field}");
                    continue;
                }
                let parsed: f64 = field.parse().unwrap_or_else(|error| panic!("{name}={field}: {error}"));
                assert!(parsed.is_finite(), "{name}={field}");
            }
        }
    }
}

#[test]
fn each_stream_of_a_source_has_statistics_at_both_ends() {
    let files = Files::new();
    let source = files.path("in.ts");
    if !is_installed("ffmpeg") {
        return skip("each_stream_of_a_source_has_statistics_at_both_ends", "ffmpeg");
    }
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-nostdin", "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=320x240:rate=25", "-f", "lavfi", "-i"]);
    ffmpeg.args(["sine=frequency=440", "-t", "4", "-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p"]);
    ffmpeg.args(["-g", "25", "-b:v", "600k", "-c:a", "aac", "-f", "mpegts", &source]);
    Running::start(ffmpeg).ends_with(0);
    let (near, far) = (free_port(), free_port());
    let [sent, received, out] = ["sent", "received", "out.ts"].map(|name| files.path(name));
    let from = format!("timeous://:{far}?latency=1s&reconnect=off");
    let mut receiver = timeous(&["recv", "--stats", &received, &from, &out]);
    receiver.until_it_says("listening");
    // Half of its rate.
    let rate = (size(&source) * 8 / 4 / 2).to_string();
    let _link = emulate(near, far, &["--rate", &rate, "--delay", "10ms", "--queue", "300ms"]);
    let to = format!("timeous://127.0.0.1:{near}?latency=1s");
    let said = timeous(&["send", "--stats", &sent, &source, &to]).ends_with(0);
    assert!(said.contains("video H.264 (256): 100 frames"), "{said}");
    let said = receiver.ends_with(0);
    assert!(said.contains("audio AAC (257): "), "{said}");
    let [sent, received] = [sent, received].map(|path| tracks(&path));
    for (tracks, kinds) in [(&sent, "the sender"), (&received, "the receiver")] {
        let told: BTreeSet<_> = tracks.iter().map(|track| (track["kind"].as_str(), track["codec"].as_str())).collect();
        let wanted = [(Some("video"), Some("H.264")), (Some("audio"), Some("AAC")), (Some("tables"), Some(""))];
        assert!(wanted.iter().all(|wanted| told.contains(wanted)), "{kinds}: {told:?}");
    }
    let of = |tracks: &[Map<String, Value>], id: u64| tracks.iter().find(|track| track["id"] == id).unwrap().clone();
    let (video, came) = (of(&sent, 256), of(&received, 256));
    let given_up = number(&video, "framesGivenUp");
    assert!(number(&video, "framesSent") == 100 && (10..100).contains(&given_up), "{video:?}");
    let reasons = ["Expired", "TooLate", "ReferenceLost", "Policy", "Other"];
    let packets: u64 = reasons.iter().map(|reason| number(&video, &format!("pktSnd{reason}Total"))).sum();
    assert!(packets >= given_up, "{video:?}");
    let fates = ["Decodable", "Incomplete", "Late", "ReferenceMissing", "Missing"];
    let all: u64 = fates.iter().map(|fate| number(&came, &format!("frames{fate}"))).sum();
    assert!(number(&came, "framesDecodable") > 0 && all == 100, "{came:?}");
    let (audio, heard) = (of(&sent, 257), of(&received, 257));
    assert_eq!(number(&audio, "framesGivenUp"), 0, "{audio:?}");
    assert_eq!(number(&audio, "framesSent"), number(&heard, "framesDecodable"), "{audio:?}, {heard:?}");
}
