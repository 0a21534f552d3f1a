//! Evaluation of a run: from the records of both ends and the link's capture to a row of the table, and the promises.

use std::collections::BTreeMap;

use serde::Serialize;
use timeous::core::{Duration, Instant};
use timeous_testbed::{Sorted, values};

use super::capture::LinkTransit;
use crate::journal::{Kind, ReceivedFrame, RtpId, SentFrame, SentPacket, frames_of};

values! {
    /// Approach of a run.
    pub(crate) enum Approach {
        /// RTP over UDP at the video's rate.
        Udp = "udp",
        /// Congestion control behind a plain queue.
        Fifo = "fifo",
        /// Congestion control with late choice.
        Timeous = "timeous",
    }
}

impl Approach {
    /// Title for people.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Udp => "UDP, constant rate",
            Self::Fifo => "plain queue (fifo)",
            Self::Timeous => "Timeous",
        }
    }
}

/// Records of one run from three sources.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Evidence {
    /// Journal of the sender.
    pub(crate) sent: Vec<SentPacket>,
    /// Frames of the receiver.
    pub(crate) received: Vec<ReceivedFrame>,
    /// Packets on the link.
    pub(crate) passages: Vec<LinkTransit>,
}

/// A row of the table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Row {
    /// Approach of the run.
    pub(crate) run: Approach,
    /// Number of captured frames.
    pub(crate) frames: usize,
    /// Frames complete at the receiver in time.
    pub(crate) frames_in_time: usize,
    /// Number of captured I frames.
    pub(crate) i_frames: usize,
    /// I frames complete at the receiver in time.
    pub(crate) i_frames_in_time: usize,
    /// Frames shown in time: complete, and all their references were played out.
    pub(crate) decodable_in_time: usize,
    /// Delays from capture to completion, of all frames completed at any time.
    pub(crate) delay_ms: Option<Delays>,
    /// Packets that entered the link.
    pub(crate) link_packets: usize,
    /// Packets that the link dropped.
    pub(crate) link_dropped: usize,
    /// Share of packets that the link dropped.
    pub(crate) link_loss: f64,
    /// Packets that entered the link after their deadline.
    pub(crate) left_late: usize,
}

/// Percentiles of delays, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Delays {
    /// Median.
    pub(crate) p50: f64,
    /// 95th percentile.
    pub(crate) p95: f64,
    /// 99th percentile.
    pub(crate) p99: f64,
}

/// Outcome of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Complete at the receiver in time.
    InTime,
    /// Complete, but late.
    Late,
    /// Incomplete because the sender dropped a part by choice.
    GivenUp,
    /// Incomplete because a part was lost.
    Lost,
}

/// A frame with its outcome.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct EvaluatedFrame {
    /// Type of the frame.
    pub(crate) kind: Kind,
    /// Capture time, relative to the first frame.
    pub(crate) at: Duration,
    /// Outcome of the frame.
    pub(crate) outcome: Outcome,
    /// Delay from capture to completion, if it was completed.
    pub(crate) delay: Option<Duration>,
}

/// Evaluation of a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Judgement {
    /// Row of the table.
    pub(crate) row: Row,
    /// Frames, in the order of capture.
    pub(crate) frames: Vec<EvaluatedFrame>,
    /// Time of entry and time on the link of each delivered packet, relative to the first capture.
    pub(crate) on_link: Vec<(Duration, Duration)>,
}

/// Contradiction between the records.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Contradiction {
    /// The sender's journal is empty.
    #[error("the sender's journal holds no packet")]
    NothingSent,
    /// The link carried a packet that is not in the sender's journal.
    #[error("the link carried RTP packet {0:?}, of which the sender's journal knows nothing")]
    UnknownPacket(RtpId),
}

/// Evaluates a run: a frame is in time if it was complete within `latency` of its capture, to the nanosecond.
///
/// # Errors
/// [`Contradiction`]
pub(crate) fn judge(run: Approach, latency: Duration, evidence: &Evidence) -> Result<Judgement, Contradiction> {
    let sent = frames_of(&evidence.sent);
    let start = sent.first().ok_or(Contradiction::NothingSent)?.captured;
    let received: BTreeMap<u32, &ReceivedFrame> =
        evidence.received.iter().map(|frame| (frame.timestamp, frame)).collect();
    let arrivals = arrivals(evidence);
    let mut decodable_in_time = 0;
    let frames: Vec<EvaluatedFrame> = sent
        .iter()
        .map(|frame| {
            let received = received.get(&frame.timestamp);
            let completed = received.and_then(|received| received.completed);
            // A receiver forgets frames that arrive long after their time; the capture has them.
            let arrived = arrivals.get(&frame.timestamp).copied().filter(|at| *at > frame.captured + latency);
            let judged = judge_frame(frame, completed.or(arrived), start, latency);
            let shown = received.is_some_and(|received| received.shown);
            decodable_in_time += usize::from(shown && judged.outcome == Outcome::InTime);
            judged
        })
        .collect();
    let link_packets = evidence.passages.len();
    let link_dropped = evidence.passages.iter().filter(|passage| passage.dropped).count();
    let intra = |frame: &&EvaluatedFrame| frame.kind.is_intra();
    let in_time = |frame: &&EvaluatedFrame| frame.outcome == Outcome::InTime;
    let row = Row {
        run,
        frames: frames.len(),
        frames_in_time: frames.iter().filter(in_time).count(),
        i_frames: frames.iter().filter(intra).count(),
        i_frames_in_time: frames.iter().filter(intra).filter(in_time).count(),
        decodable_in_time,
        delay_ms: delays(&frames),
        link_packets,
        link_dropped,
        link_loss: link_dropped as f64 / link_packets.max(1) as f64,
        left_late: count_late(evidence, latency)?,
    };
    let on_link = evidence.passages.iter().filter_map(|passage| {
        Some((passage.entered.saturating_since(start), passage.left?.saturating_since(passage.entered)))
    });
    Ok(Judgement { row, frames, on_link: on_link.collect() })
}

/// Time at which each frame was completely delivered by the link.
fn arrivals(evidence: &Evidence) -> BTreeMap<u32, Instant> {
    let mut left: BTreeMap<RtpId, Instant> = BTreeMap::new();
    for passage in &evidence.passages {
        if let (Some(id), Some(at)) = (passage.rtp, passage.left) {
            left.entry(id).or_insert(at);
        }
    }
    let mut frames: BTreeMap<u32, Option<Instant>> = BTreeMap::new();
    for packet in &evidence.sent {
        let at = left.get(&packet.id).copied();
        let frame = frames.entry(packet.id.timestamp).or_insert(at);
        *frame = (*frame).zip(at).map(|(earlier, at)| earlier.max(at));
    }
    frames.into_iter().filter_map(|(timestamp, at)| Some((timestamp, at?))).collect()
}

fn judge_frame(frame: &SentFrame, completed: Option<Instant>, start: Instant, latency: Duration) -> EvaluatedFrame {
    let delay = completed.map(|at| at.saturating_since(frame.captured));
    let outcome = match delay {
        Some(delay) if delay <= latency => Outcome::InTime,
        Some(_) => Outcome::Late,
        None if frame.given_up => Outcome::GivenUp,
        None => Outcome::Lost,
    };
    EvaluatedFrame { kind: frame.kind, at: frame.captured.saturating_since(start), outcome, delay }
}

fn delays(frames: &[EvaluatedFrame]) -> Option<Delays> {
    let delays: Sorted = frames.iter().filter_map(|frame| Some(frame.delay?.as_secs_f64() * 1e3)).collect();
    let at = |percent| delays.percentile(percent);
    (!delays.is_empty()).then(|| Delays { p50: at(50.0), p95: at(95.0), p99: at(99.0) })
}

/// Number of packets that entered the link after their deadline; without one in the journal, after that of their frame.
fn count_late(evidence: &Evidence, latency: Duration) -> Result<usize, Contradiction> {
    let deadline = |packet: &SentPacket| packet.deadline.unwrap_or(packet.captured + latency);
    let deadlines: BTreeMap<RtpId, Instant> =
        evidence.sent.iter().map(|packet| (packet.id, deadline(packet))).collect();
    let mut late = 0;
    for passage in &evidence.passages {
        let Some(id) = passage.rtp else { continue };
        let deadline = deadlines.get(&id).ok_or(Contradiction::UnknownPacket(id))?;
        late += usize::from(passage.entered > *deadline);
    }
    Ok(late)
}

/// Maximum loss rate on the link for a well-behaved sender.
const LOSS_ALLOWED: f64 = 0.01;

/// Describes the broken promises of the demonstration.
pub(crate) fn broken_promises(rows: &[Row], latency: Duration) -> Vec<String> {
    let Some(own) = rows.iter().find(|row| row.run == Approach::Timeous) else {
        return vec!["there is no run of Timeous".to_owned()];
    };
    let mut broken = Vec::new();
    if own.i_frames_in_time < own.i_frames {
        broken.push(format!("every I frame in time: {} of {} were", own.i_frames_in_time, own.i_frames));
    }
    for other in rows.iter().filter(|row| row.run != Approach::Timeous) {
        if own.decodable_in_time < 2 * other.decodable_in_time {
            let (own, theirs, title) = (own.decodable_in_time, other.decodable_in_time, other.run.title());
            broken.push(format!("twice the decodable frames of {title}: {own} against {theirs}"));
        }
    }
    let p95 = own.delay_ms.map_or(f64::INFINITY, |delays| delays.p95);
    let bound = latency.as_secs_f64() * 1e3;
    if p95 >= bound {
        broken.push(format!("the 95th percentile of the delay under {bound:.0} ms: it is {p95:.0} ms"));
    }
    if own.link_loss > LOSS_ALLOWED {
        let (loss, allowed) = (own.link_loss * 100.0, LOSS_ALLOWED * 100.0);
        broken.push(format!("at most {allowed:.0} % lost in the link: it dropped {loss:.2} %"));
    }
    if own.left_late > 0 {
        broken.push(format!("nothing leaves after its deadline: {} packets did", own.left_late));
    }
    broken
}

#[cfg(test)]
mod tests;
