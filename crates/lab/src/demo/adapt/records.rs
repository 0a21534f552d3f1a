//! Records of both ends: statistics each tenth of a second, packets, frames.

use std::collections::BTreeMap;

use serde::Deserialize;
use timeous::core::{Duration, Instant, Rate};

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

#[derive(Deserialize)]
struct SentRow {
    rtp_timestamp: u32,
    bytes: u64,
    captured: u64,
}

#[derive(Deserialize)]
struct ReceivedRow {
    rtp_timestamp: u32,
    fate: String,
    completed: Option<u64>,
}

/// Parses the sender's packets and the receiver's frames; returns all encoded frames, in order.
pub(super) fn read_frames(sent: &str, received: &str) -> Result<Vec<Frame>, String> {
    let mut frames: BTreeMap<u32, Frame> = BTreeMap::new();
    for row in csv::Reader::from_reader(sent.as_bytes()).deserialize() {
        let SentRow { rtp_timestamp, bytes, captured } = row.map_err(|error| error.to_string())?;
        let captured = Instant::from_nanos(captured);
        let new = Frame { captured, bytes: 0, completed: None, shown: false };
        frames.entry(rtp_timestamp).or_insert(new).bytes += bytes;
    }
    for row in csv::Reader::from_reader(received.as_bytes()).deserialize() {
        let ReceivedRow { rtp_timestamp, fate, completed } = row.map_err(|error| error.to_string())?;
        if let Some(frame) = frames.get_mut(&rtp_timestamp) {
            frame.completed = completed.map(Instant::from_nanos);
            frame.shown = fate == "Decodable";
        }
    }
    let mut frames: Vec<Frame> = frames.into_values().collect();
    frames.sort_by_key(|frame| frame.captured);
    Ok(frames)
}

#[cfg(test)]
mod tests {
    use super::*;

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
