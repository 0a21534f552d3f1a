//! Evaluation of an encoder that follows its link: response time, late frames, queue.

use std::collections::BTreeMap;

use crate::journal::{SentPacket, read_received, read_sent};
use serde::Deserialize;
use timeous::core::{Duration, Instant, Rate};
use timeous_testbed::{Sorted, mean};

/// Course of the link, in wall-clock time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Course {
    /// Full and reduced rate (a third).
    pub(super) full: Rate,
    pub(super) low: Rate,
    pub(super) begins: Instant,
    pub(super) falls: Instant,
    pub(super) returns: Instant,
    pub(super) ends: Instant,
    /// Latency from the encoder to playout.
    pub(super) latency: Duration,
}

/// A promise and its result.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Verdict {
    pub(super) what: &'static str,
    pub(super) found: String,
    pub(super) bound: String,
    pub(super) holds: bool,
}

/// Maximum response time of the encoder.
const FOLLOWS: Duration = Duration::from_secs(2);
/// Averaging window of the encoded rate.
const WINDOW: Duration = Duration::from_secs(1);
/// Averaging window of the rate before a change.
const BEFORE: Duration = Duration::from_secs(5);

/// Rate encoded in the last second, at each frame.
pub(super) fn encoded(frames: &[Frame]) -> Vec<(Instant, Rate)> {
    let (mut first, mut bytes) = (0, 0);
    let mut rates = Vec::with_capacity(frames.len());
    for frame in frames {
        bytes += frame.bytes;
        while frame.captured.saturating_since(frames[first].captured) >= WINDOW {
            bytes -= frames[first].bytes;
            first += 1;
        }
        rates.push((frame.captured, Rate::from_bytes_in(bytes, WINDOW)));
    }
    rates
}

/// Compares the measurements with the promises.
pub(super) fn judge(course: &Course, samples: &[Sample], frames: &[Frame]) -> Vec<Verdict> {
    let frames: Vec<Frame> = frames
        .iter()
        .copied()
        .filter(|frame| frame.captured >= course.begins && frame.captured < course.ends)
        .collect();
    let before = mean_rate(samples, course.falls.saturating_sub(BEFORE), course.falls);
    let most = Rate::from_bps(before.as_bps() / 4 * 3);
    let down = first(samples, course.falls, course.returns, |rate| rate <= course.low);
    let up = first(samples, course.returns, course.ends, |rate| rate >= most);
    let late: Vec<Duration> = frames
        .iter()
        .filter_map(|frame| Some(frame.completed?.saturating_since(frame.captured).saturating_sub(course.latency)))
        .filter(|late| !late.is_zero())
        .collect();
    let shown = frames.iter().filter(|frame| frame.shown).count();
    vec![
        follows("the bitrate follows the fall", down, format!("at most {}", course.low)),
        follows("the bitrate follows the return", up, format!("at least {most}, three quarters of before")),
        Verdict {
            what: "frames later than the latency asked for",
            found: match late.iter().max() {
                None => format!("none of {}, {shown} shown", frames.len()),
                Some(worst) => format!("{} of {}, by up to {worst:?}", late.len(), frames.len()),
            },
            bound: "none".to_owned(),
            holds: late.is_empty() && shown > 0,
        },
        queue(course, samples),
    ]
}

fn follows(what: &'static str, after: Option<Duration>, to: String) -> Verdict {
    let found = after.map_or_else(|| format!("never {to}"), |after| format!("{to} after {after:?}"));
    Verdict { what, found, bound: format!("within {FOLLOWS:?}"), holds: after.is_some_and(|after| after <= FOLLOWS) }
}

/// Queue relative to `Max_Th`; 95 % of the samples must be below it.
fn queue(course: &Course, samples: &[Sample]) -> Verdict {
    let seen = samples.iter().filter(|sample| sample.at >= course.begins && sample.at < course.ends);
    let shares = seen.filter_map(|sample| Some(sample.queued as f64 / sample.max? as f64));
    let p95 = shares.collect::<Sorted>().percentile(95.0);
    Verdict {
        what: "95 % of the send buffer's lengths are within",
        found: if p95.is_nan() { "nothing was seen".to_owned() } else { format!("{p95:.2} of Max_Th") },
        bound: "at most 1".to_owned(),
        holds: p95 <= 1.0,
    }
}

fn mean_rate(samples: &[Sample], from: Instant, to: Instant) -> Rate {
    let within = samples.iter().filter(|sample| sample.at >= from && sample.at < to);
    Rate::from_bps(mean(within.map(|sample| sample.asked.as_bps() as f64)) as u64)
}

/// Time from `from` to the first matching bitrate, before `to`.
fn first(samples: &[Sample], from: Instant, to: Instant, like: impl Fn(Rate) -> bool) -> Option<Duration> {
    let found = samples.iter().find(|sample| sample.at >= from && sample.at < to && like(sample.asked))?;
    Some(found.at - from)
}

/// State of the sender at one time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample {
    /// Wall-clock time.
    pub(super) at: Instant,
    /// Bitrate requested from the encoder.
    pub(super) asked: Rate,
    /// Queued bytes.
    pub(super) queued: u64,
    /// `Max_Th` at that time, if known.
    pub(super) max: Option<u64>,
}

/// A frame at both ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Frame {
    /// Time at which the encoder produced it.
    pub(super) captured: Instant,
    /// Bytes of its packets.
    pub(super) bytes: u64,
    /// Arrival time of its last packet, if all arrived.
    pub(super) completed: Option<Instant>,
    /// Whether it was shown.
    pub(super) shown: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StatsRow {
    unix_ms: u64,
    mbps_source_rate: Option<f64>,
    byte_snd_buf: u64,
    byte_snd_buf_max_th: Option<u64>,
}

/// Parses the statistics of `timeous send`; lines before the stream's rate is known are left out.
pub(super) fn read_samples(text: &str) -> Result<Vec<Sample>, String> {
    let rows = text.lines().map(|line| serde_json::from_str::<StatsRow>(line).map_err(|error| error.to_string()));
    let sample = |row: StatsRow| {
        Some(Sample {
            at: Instant::ZERO + Duration::from_millis(row.unix_ms),
            asked: Rate::from_bps((row.mbps_source_rate? * 1e6) as u64),
            queued: row.byte_snd_buf,
            max: row.byte_snd_buf_max_th,
        })
    };
    rows.filter_map(|row| row.map(sample).transpose()).collect()
}

/// Parses the sender's packets and the receiver's frames; returns all encoded frames, in order.
pub(super) fn read_frames(sent: &str, received: &str) -> Result<Vec<Frame>, String> {
    let mut frames: BTreeMap<u32, Frame> = BTreeMap::new();
    for SentPacket { id, bytes, captured, .. } in read_sent(sent.as_bytes()).map_err(|error| error.to_string())? {
        let new = Frame { captured, bytes: 0, completed: None, shown: false };
        frames.entry(id.timestamp).or_insert(new).bytes += bytes;
    }
    for came in read_received(received.as_bytes()).map_err(|error| error.to_string())? {
        if let Some(frame) = frames.get_mut(&came.timestamp) {
            (frame.completed, frame.shown) = (came.completed, came.shown);
        }
    }
    let mut frames: Vec<Frame> = frames.into_values().collect();
    frames.sort_by_key(|frame| frame.captured);
    Ok(frames)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn course() -> Course {
        let [full, low] = [1_200, 400].map(Rate::from_kbps);
        let latency = Duration::from_millis(300);
        Course { full, low, begins: at(0), falls: at(10_000), returns: at(20_000), ends: at(30_000), latency }
    }

    /// An encoder that follows so long after each change; its queue is half of `Max_Th` but for `full` samples.
    fn samples(after: u64, full: usize) -> Vec<Sample> {
        let rate = |millis| if (10_000 + after..20_000 + after).contains(&millis) { 380 } else { 1_100 };
        let sample = |n: usize| Sample {
            at: at(n as u64 * 100),
            asked: Rate::from_kbps(rate(n as u64 * 100)),
            queued: if n < full { 2_000 } else { 500 },
            max: Some(1_000),
        };
        (0..300).map(sample).collect()
    }

    fn frames(delay: u64) -> Vec<Frame> {
        let frame =
            |n: u64| Frame { captured: at(n * 40), bytes: 2_000, completed: Some(at(n * 40 + delay)), shown: true };
        (0..750).map(frame).collect()
    }

    fn holding(after: u64, full: usize, delay: u64) -> Vec<bool> {
        judge(&course(), &samples(after, full), &frames(delay)).iter().map(|verdict| verdict.holds).collect()
    }

    #[test]
    fn each_promise_holds_up_to_its_bound() {
        assert_eq!(holding(2_000, 15, 300), [true; 4]);
        assert_eq!(holding(2_100, 15, 300), [false, false, true, true]);
        assert_eq!(holding(2_000, 15, 301), [true, true, false, true]);
        assert_eq!(holding(2_000, 16, 300), [true, true, true, false]);
        assert_eq!(
            judge(&course(), &[], &[]).iter().filter(|verdict| verdict.holds).count(),
            0,
            "nothing shows nothing"
        );
    }

    #[test]
    fn the_encoded_rate_is_that_of_the_last_second() {
        let rates = encoded(&frames(0));
        assert_eq!(rates[100].1, Rate::from_kbps(400));
        assert!(rates.iter().all(|(_, rate)| *rate <= Rate::from_kbps(400)));
    }

    #[test]
    fn both_ends_are_put_together() {
        let sent = "rtp_timestamp,rtp_sequence,frame,kind,bytes,captured,enqueued,deadline,fate\n\
            5,1,0,Idr,1000,10,11,20,acked\n5,2,0,Idr,500,10,12,20,acked\n9,3,1,P,300,50,51,60,policy\n";
        let received = "rtp_timestamp,kind,fate,completed,playout,packets,bytes\n5,Idr,Decodable,15,20,2,1500\n";
        let frames = read_frames(sent, received).unwrap();
        let seen: Vec<_> = frames.iter().map(|frame| (frame.bytes, frame.completed.is_some(), frame.shown)).collect();
        assert_eq!(seen, [(1_500, true, true), (300, false, false)]);
    }

    #[test]
    fn samples_begin_when_the_rate_is_known() {
        let row = |rate: &str| {
            format!(
                "{{\"unixMs\":7,\"mbpsSourceRate\":{rate},\"byteSndBuf\":5,\"byteSndBufMaxTh\":null,\"other\":1}}\n"
            )
        };
        let samples = read_samples(&(row("null") + &row("0.6"))).unwrap();
        assert_eq!((samples.len(), samples[0].asked, samples[0].max), (1, Rate::from_kbps(600), None));
        assert!(read_samples("{}").is_err());
    }
}
