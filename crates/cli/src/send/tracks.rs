//! Statistics of each stream of a source at the sender: video, audio, subtitles and others, by the fates of their packets.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;
use timeous::core::{AduSeq, DropReason, Fate};
use timeous_media::MediaDescription;

use crate::input::MediaPart;
use crate::track::TrackName;

/// Statistics of a stream of the source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SentTrack {
    #[serde(flatten)]
    name: TrackName,
    /// Frames handed to the stream, as `framesSent` of all: those given up, and those of which all packets were sent.
    frames_sent: u64,
    /// Frames that the send queue had no room for.
    frames_not_sent: u64,
    /// Frames of which packets were dropped before they were sent, for any of the reasons below.
    frames_given_up: u64,
    /// Packets queued, or sent and not answered; at the end, those of which nothing was heard.
    pkt_pending: u64,
    /// Packets acknowledged by the receiver.
    pkt_acked_total: u64,
    /// Packets lost for good.
    pkt_snd_loss_total: u64,
    /// Packets dropped because their deadline had passed.
    pkt_snd_expired_total: u64,
    /// Packets dropped because they could not have arrived in time.
    pkt_snd_too_late_total: u64,
    /// Packets dropped because a frame that they refer to was lost or dropped.
    pkt_snd_reference_lost_total: u64,
    /// Packets dropped by the policy, in favour of other packets.
    pkt_snd_policy_total: u64,
    /// Packets dropped for other reasons.
    pkt_snd_other_total: u64,
    /// Bytes of the packets that were sent and acknowledged or lost, without retransmissions.
    byte_sent_total: u64,
}

/// Key of a stream: its number, and whether it is the clock of a PID.
pub(super) type Key = (u16, bool);

/// Packet whose fate is not known.
#[derive(Clone, Copy, Debug)]
struct Pending {
    key: Key,
    frame: u32,
    bytes: usize,
}

/// Frames of a stream that are remembered as given up. Chosen by us: fates come in any order within the send queue, which holds
/// fewer; a higher value takes more memory.
const REMEMBERED: usize = 4_096;

/// Statistics of all streams of a source.
#[derive(Clone, Debug, Default)]
pub(super) struct SentTracks {
    tracks: BTreeMap<Key, SentTrack>,
    pending: BTreeMap<AduSeq, Pending>,
    /// The latest frames of each stream that were given up.
    given_up: BTreeMap<Key, BTreeSet<u32>>,
}

impl SentTracks {
    /// Counts a frame that is handed to the stream.
    pub(super) fn frame(&mut self, part: &MediaPart, encoding: usize) {
        self.track(part, encoding).frames_sent += 1;
    }

    /// Counts a frame that the queue had no room for; returns whether it was not given up before.
    pub(super) fn no_room(&mut self, part: &MediaPart, encoding: usize) -> bool {
        let track = self.track(part, encoding);
        track.frames_not_sent += 1;
        track.frames_sent = track.frames_sent.saturating_sub(1);
        self.give_up(key_of(part, encoding), part.number())
    }

    /// Takes a packet that was queued.
    pub(super) fn queued(&mut self, seq: AduSeq, part: &MediaPart, encoding: usize, bytes: usize) {
        let key = key_of(part, encoding);
        self.pending.insert(seq, Pending { key, frame: part.number(), bytes });
        self.tracks.entry(key).or_default().pkt_pending += 1;
    }

    /// Takes the fate of a packet; returns the number of its stream if its frame is now given up.
    pub(super) fn fate(&mut self, seq: AduSeq, fate: Fate) -> Option<u16> {
        let Pending { key, frame, bytes } = self.pending.remove(&seq)?;
        let track = self.tracks.entry(key).or_default();
        let count = match fate {
            Fate::Acked => &mut track.pkt_acked_total,
            Fate::Lost => &mut track.pkt_snd_loss_total,
            Fate::Dropped(DropReason::Expired) => &mut track.pkt_snd_expired_total,
            Fate::Dropped(DropReason::TooLate) => &mut track.pkt_snd_too_late_total,
            Fate::Dropped(DropReason::ReferenceLost) => &mut track.pkt_snd_reference_lost_total,
            Fate::Dropped(DropReason::Policy) => &mut track.pkt_snd_policy_total,
            Fate::Dropped(_) => &mut track.pkt_snd_other_total,
        };
        *count += 1;
        track.pkt_pending = track.pkt_pending.saturating_sub(1);
        if !matches!(fate, Fate::Dropped(_)) {
            track.byte_sent_total += bytes as u64;
            return None;
        }
        let is_new = self.give_up(key, frame);
        if is_new && let Some(track) = self.tracks.get_mut(&key) {
            track.frames_given_up += 1;
        }
        is_new.then_some(key.0)
    }

    /// Returns whether the frame was not given up before.
    fn give_up(&mut self, key: Key, frame: u32) -> bool {
        let known = self.given_up.entry(key).or_default();
        let is_new = known.insert(frame);
        if known.len() > REMEMBERED {
            known.pop_first();
        }
        is_new
    }

    fn track(&mut self, part: &MediaPart, encoding: usize) -> &mut SentTrack {
        let key = key_of(part, encoding);
        let track = self.tracks.entry(key).or_default();
        track.name.id = key.0;
        match part {
            MediaPart::Video(_) => track.name = TrackName::h264(key.0),
            // Tables may come later.
            MediaPart::Ts(unit) => track.name = TrackName::from(unit.stream),
            MediaPart::Passthrough(_) => {}
        }
        track
    }

    /// Names the streams of a source of RTP.
    pub(super) fn name(&mut self, streams: &[MediaDescription]) {
        for (id, stream) in (0..).zip(streams) {
            if let Some(track) = self.tracks.get_mut(&(id, false)) {
                track.name = TrackName::described(id, stream);
            }
        }
    }

    /// Frames that were given up.
    pub(super) fn given_up(&self) -> u64 {
        self.tracks.values().map(|track| track.frames_given_up).sum()
    }

    /// Packets of which nothing was heard.
    pub(super) fn pending(&self) -> u64 {
        self.tracks.values().map(|track| track.pkt_pending).sum()
    }

    /// Number of each stream, and of the frames that were handed over; never empty, as the promise of this message is.
    pub(super) fn frames(&self) -> Vec<(u32, u32)> {
        let count = |frames: u64| u32::try_from(frames).unwrap_or(u32::MAX);
        let frames = self.tracks.values().map(|track| (track.name.number(), count(track.frames_sent)));
        if self.tracks.is_empty() { vec![(0, 0)] } else { frames.collect() }
    }

    /// Statistics of each stream, by its number.
    pub(super) fn all(&self) -> Vec<&SentTrack> {
        self.tracks.values().collect()
    }

    /// A line for each stream that is of use to people, if there are several.
    pub(super) fn lines(&self) -> Vec<String> {
        let media: Vec<_> = self.tracks.values().filter(|track| track.name.is_media()).collect();
        media.iter().filter(|_| media.len() > 1).map(|track| track.line()).collect()
    }
}

impl SentTrack {
    fn line(&self) -> String {
        let reasons = [
            ("expired", self.pkt_snd_expired_total),
            ("too late", self.pkt_snd_too_late_total),
            ("without their reference", self.pkt_snd_reference_lost_total),
            ("by the policy", self.pkt_snd_policy_total),
            ("for other reasons", self.pkt_snd_other_total),
        ];
        let reasons: Vec<_> =
            reasons.iter().filter(|(_, count)| *count > 0).map(|(reason, count)| format!("{count} {reason}")).collect();
        let why = if reasons.is_empty() { String::new() } else { format!(" (packets: {})", reasons.join(", ")) };
        format!(
            "{}: {} frames, {} of them given up{why}; {} packets lost, {}B sent",
            self.name,
            self.frames_sent,
            self.frames_given_up,
            self.pkt_snd_loss_total,
            crate::figures::scaled(self.byte_sent_total),
        )
    }
}

pub(super) fn key_of(part: &MediaPart, encoding: usize) -> Key {
    match part {
        MediaPart::Video(_) => (encoding as u16, false),
        MediaPart::Ts(unit) => (unit.stream.pid, unit.stream.kind == timeous_media::ts::StreamKind::Clock),
        MediaPart::Passthrough(unit) => (unit.stream.into(), false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_whose_packets_are_given_up_between_those_of_another_counts_once() {
        let (mut tracks, key) = (SentTracks::default(), (0, false));
        for (frame, seq) in [10, 11, 10, 11].into_iter().zip(1..) {
            tracks.pending.insert(AduSeq(seq), Pending { key, frame, bytes: 100 });
        }
        let given_up: Vec<_> = (1..=4).map(|seq| tracks.fate(AduSeq(seq), Fate::Dropped(DropReason::Policy))).collect();
        assert_eq!(given_up, [Some(0), Some(0), None, None]);
        assert_eq!((tracks.tracks[&key].frames_given_up, tracks.tracks[&key].pkt_snd_policy_total), (2, 4));
    }
}
