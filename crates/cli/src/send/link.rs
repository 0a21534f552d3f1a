//! Connected receiver of a stream: its packets, deadlines, control messages and statistics.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use timeous::core::{AduSeq, Duration, Fate, FrameId, Instant, Priority, SubStream};
use timeous::{Arrival, Hints, Receiver, SendError, Sender, Stats, Status, clock};
use timeous_media::passthrough::{StreamClock, stream_ssrc};
use timeous_media::{Control, MediaAdu, control};

use super::packets::Packets;
use super::player;
use super::tracks::{Key, SentTracks, key_of};
use crate::failure::Failure;
use crate::input::MediaPart;
use crate::journal::{Entry, Journal, fate_name};
use crate::notice::{RateLimitedMessages, tell};
use crate::source::{DueFrame, Source};

/// Interval of sender reports and latency messages.
const REPORTS: Duration = Duration::from_secs(1);
/// Longest single wait for room in the ring.
const PATIENCE: Duration = Duration::from_millis(20);
/// Interval at which path statistics are sampled.
const LOOKS: Duration = Duration::from_millis(100);
/// The same, before the round-trip time is known.
const FIRST_LOOKS: Duration = Duration::from_millis(10);
/// Samples of the one-way delay; less than a second, after which the receiver follows a longer path.
const WAYS: usize = 8;

/// Connected receiver.
pub(super) struct Link {
    pub(super) sender: Sender,
    receiver: Receiver,
    peer: Option<SocketAddr>,
    pub(super) packets: Packets,
    /// Whether the receiver knows nothing of Timeous, and of control messages.
    is_player: bool,
    entries: BTreeMap<AduSeq, Entry>,
    /// Statistics of each stream of the source.
    pub(super) tracks: SentTracks,
    /// When the streams are described next.
    next_description: Instant,
    /// Changes of the source's clocks that were told.
    clock_updates: u64,
    /// Larger one of the latencies that both ends request.
    latency: Duration,
    way: PathDelay,
    /// Falls of the path's packet size of which the user was told.
    told_falls: u64,
    /// Whether an entry point was sent, before which a decoder can do nothing.
    has_entered: bool,
    /// Streams of a transport stream with an entry point that was sent. A receiver of ours looks for one itself, a player does not.
    entered: BTreeSet<Key>,
    /// Current frame, if its first part was sent.
    frame: Option<u32>,
    /// PES packet of a transport stream whose rest is not sent.
    left_out: BTreeMap<Key, u32>,
    next_report: Instant,
    refused: RateLimitedMessages,
    pub(super) counts: LinkCounts,
    wants_keyframe: bool,
    is_over: bool,
}

/// Frame counters of a receiver.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LinkCounts {
    pub(super) frames: u64,
    pub(super) i_frames: u64,
    /// Frames not sent: before an entry point, or because the ring was full.
    pub(super) skipped: u64,
}

/// Shortest one-way delay by the receiver's clock, which its playout adds to the latency.
#[derive(Default)]
struct PathDelay {
    /// Latest samples.
    recent: std::collections::VecDeque<Duration>,
    next_look: Instant,
    /// Extra delay of the fastest frames against the receiver's clock, as it reports.
    excess: Option<Duration>,
    known: Duration,
}

impl PathDelay {
    /// Takes in statistics.
    fn update(&mut self, now: Instant, stats: &Stats) {
        let ms = |ms: f64| Duration::from_secs_f64(ms.max(0.0) / 1e3);
        let (srtt, least) = (ms(stats.ms_rtt), ms(stats.ms_rtt_min));
        if least.is_zero() {
            // The first frames need it.
            self.next_look = now + FIRST_LOOKS;
            return;
        }
        self.next_look = now + LOOKS;
        // As in the policies, queueing delay (above the minimum RTT) is assigned to the forward path.
        self.recent.push_back(srtt.saturating_sub(least / 2));
        if self.recent.len() > WAYS {
            self.recent.pop_front();
        }
        let shortest = self.recent.iter().copied().min().unwrap_or_default();
        self.known = (least / 2).max(self.excess.map_or(least / 2, |excess| shortest.saturating_sub(excess)));
    }
}

impl Link {
    pub(super) fn new(sender: Sender, receiver: Receiver, packets: Packets) -> Self {
        let (peer, latency) = (sender.peer(), sender.options().latency);
        let mut link = Self {
            sender,
            receiver,
            peer,
            is_player: packets.are_for_player(),
            packets,
            entries: BTreeMap::new(),
            tracks: SentTracks::default(),
            next_description: Instant::ZERO,
            clock_updates: 0,
            latency,
            way: PathDelay::default(),
            told_falls: 0,
            has_entered: false,
            frame: None,
            entered: BTreeSet::new(),
            left_out: BTreeMap::new(),
            next_report: Instant::ZERO,
            refused: RateLimitedMessages::default(),
            counts: LinkCounts::default(),
            wants_keyframe: false,
            is_over: false,
        };
        link.say_preface();
        link.look_at_path(clock::now());
        link
    }

    /// Queues the header of a player's byte stream, as soon as it is known: nothing is queued before.
    fn say_preface(&mut self) {
        if let Some(bytes) = self.packets.take_preface() {
            let _has_room = player::say(&mut self.sender, &bytes);
        }
    }

    /// Takes in statistics of the path, now and then.
    fn look_at_path(&mut self, now: Instant) {
        if now < self.way.next_look {
            return;
        }
        let stats = self.sender.stats();
        self.way.update(now, &stats);
        if stats.path_black_holes_total > self.told_falls {
            self.told_falls = stats.path_black_holes_total;
            let (peer, most) = (self.name(), stats.byte_mss);
            tell(format_args!(
                "path MTU fell: packets to {peer} have at most {most} bytes from now on, since larger ones vanish"
            ));
        }
    }

    /// Address of the receiver, for people.
    pub(super) fn name(&self) -> String {
        self.peer.map_or_else(|| "the receiver".to_owned(), |peer| peer.to_string())
    }

    /// Summary of the transmission, for people.
    pub(super) fn summary(&self) -> String {
        let (counts, stats, given_up) = (self.counts, self.sender.stats(), self.tracks.given_up());
        let [acked, lost, dropped] = [stats.pkt_acked_total, stats.pkt_snd_loss_total, stats.pkt_snd_drop_total];
        let pending = self.tracks.pending();
        let unanswered = if pending > 0 { format!(", {pending} not answered") } else { String::new() };
        format!(
            "{}: {} frames, {given_up} of them given up, and {} left out; {} packets: {acked} arrived, {lost} lost, {dropped} given \
             up{unanswered}",
            self.name(),
            counts.frames,
            counts.skipped,
            acked + lost + dropped + pending,
        )
    }

    /// Sends a part of a frame, beginning with an entry point and the parameter sets that it needs.
    pub(super) fn send(
        &mut self,
        due: &DueFrame,
        sets: &[Vec<u8>],
        journal: &mut Journal,
        wait: bool,
    ) -> Result<(), Failure> {
        let part = &due.part;
        if part.is_first() {
            let key = key_of(part, due.encoding);
            if part.is_entry() {
                self.entered.insert(key);
            }
            let is_known = !self.packets.are_for_player() || !part.depends() || self.entered.contains(&key);
            let is_taken = (self.has_entered || part.is_entry() || part.begins_anywhere()) && is_known;
            if !is_known {
                self.left_out.insert(key, part.number());
            }
            self.frame = is_taken.then_some(part.number());
            let (sent, skipped) = if is_taken { (1, 0) } else { (0, 1) };
            self.counts.frames += sent;
            self.counts.skipped += skipped;
            self.counts.i_frames += u64::from(is_taken && part.is_keyframe());
            if is_taken {
                self.tracks.frame(part, due.encoding);
            }
        }
        let is_left_out = if part.begins_anywhere() {
            self.left_out.get(&key_of(part, due.encoding)) == Some(&part.number())
        } else {
            self.frame != Some(part.number())
        };
        if is_left_out {
            return Ok(());
        }
        // Again with each entry point: the packets with the first ones may be lost, and a source may tell them only once.
        let sets = if part.is_first() && (!self.has_entered || part.is_entry()) { sets } else { &[] };
        self.has_entered = true;
        let stamp = timeous_media::Stamp { is_queued: self.sender.ring().queued_len() > 0, ..due.stamp };
        let deadline = self.deadline(due.captured);
        self.packets.resize(self.sender.max_payload());
        let adus = self.packets.packetize(part, sets, &stamp);
        self.say_preface();
        for adu in adus {
            let Some(seq) = self.queue(&adu, deadline, wait)? else {
                // The rest of the frame would be useless.
                let is_new = self.tracks.no_room(part, due.encoding);
                if let MediaPart::Passthrough(unit) = part
                    && is_new
                {
                    self.packets.count_given_up(unit.stream);
                }
                self.counts.skipped += 1;
                // It was counted as handed over with its first part.
                self.counts.frames = self.counts.frames.saturating_sub(1);
                self.counts.i_frames = self.counts.i_frames.saturating_sub(u64::from(part.is_keyframe()));
                self.frame = None;
                self.left_out.insert(key_of(part, due.encoding), part.number());
                self.wants_keyframe = true;
                return Ok(());
            };
            self.tracks.queued(seq, part, due.encoding, adu.rtp.len());
            if journal.is_wanted() {
                let entry = journal.entry(&adu, due, clock::now(), deadline);
                self.entries.insert(seq, entry);
            }
        }
        Ok(())
    }

    /// Playout instant of a frame by this end's clock: capture plus latency plus shortest one-way delay.
    fn deadline(&self, captured: Instant) -> Option<Instant> {
        self.sender.options().has_deadlines().then(|| captured + self.latency + self.way.known)
    }

    /// Queues a packet. A full ring blocks a file, like a full socket, but not a live source.
    fn queue(&mut self, adu: &MediaAdu, deadline: Option<Instant>, wait: bool) -> Result<Option<AduSeq>, Failure> {
        let meta = &adu.meta;
        let hints = Hints {
            deadline,
            priority: meta.priority,
            substream: meta.substream,
            frame: meta.frame,
            references: meta.references,
        };
        loop {
            match self.sender.send(&adu.rtp, hints) {
                Err(SendError::Full) if wait => {
                    self.sender.wait(Some(clock::now() + PATIENCE));
                }
                Err(SendError::Full) => {
                    self.refused.tell(&format!(
                        "the send queue to {} is full, and a frame is left out: the source comes faster than it can be sent \
                         (a file through a pipe is paced by --file)",
                        self.name()
                    ));
                    return Ok(None);
                }
                // Without packets, a frame may be too large.
                Err(error @ SendError::TooLarge { .. }) => {
                    self.refused.tell(&format!("{error}: a frame to {} is left out", self.name()));
                    return Ok(None);
                }
                // The status tells the reason.
                Err(SendError::Closed(_)) => return Ok(None),
                done => return Ok(Some(done?)),
            }
        }
    }

    /// Sends due control messages, and handles received ones.
    pub(super) fn talk(&mut self, source: &Source) {
        let now = clock::now();
        self.look_at_path(now);
        self.describe(now, source);
        self.tracks.name(source.streams());
        if now >= self.next_report && matches!(self.sender.status(), Status::Open) {
            self.next_report = now + REPORTS;
            let clock = Control::SenderClock {
                ssrc: self.packets.ssrc(),
                ntp: control::ntp(now + clock::unix_offset()),
                timestamp: self.packets.timestamp(source.ticks(now)),
            };
            let terms = Control::Terms { latency: self.sender.options().latency, excess: None };
            self.say(&clock.write());
            // In the packet of the terms: the promise takes no place in the ring of its own.
            self.say(&[terms.write(), Control::Frames { streams: Vec::new() }.write()].concat());
        }
        while !self.is_over {
            match self.receiver.poll_receive() {
                Ok(Some(Arrival::Data(received))) if !self.is_player && control::is_control(&received.bytes) => {
                    Control::read(&received.bytes).into_iter().for_each(|message| self.on_control(message));
                }
                Ok(Some(Arrival::Data(_))) => {}
                Ok(Some(Arrival::Nothing) | None) => return,
                Ok(Some(Arrival::End)) | Err(_) => self.is_over = true,
            }
        }
    }

    /// Describes the streams of a source of several, again and again: a receiver may miss it. Their clocks are told then, and when they
    /// change.
    fn describe(&mut self, now: Instant, source: &Source) {
        let is_due = now >= self.next_description;
        if !is_due && self.clock_updates == source.clock_updates() || !matches!(self.sender.status(), Status::Open) {
            return;
        }
        if is_due {
            self.next_description = now + REPORTS;
            let streams = source.streams();
            for (number, stream) in (0..).zip(streams) {
                self.say(&Control::Stream { number, of: streams.len() as u8, lines: stream.lines(0) }.write());
            }
        }
        self.clock_updates = source.clock_updates();
        for (number, clock) in (0..).zip(source.clocks()) {
            if let Some(StreamClock { ntp, timestamp }) = *clock {
                let ssrc = stream_ssrc(self.packets.ssrc(), number);
                self.say(&Control::SenderClock { ssrc, ntp, timestamp }.write());
            }
        }
    }

    /// Queues control messages; returns `false` if the ring is full: video takes precedence.
    fn say(&mut self, messages: &[u8]) -> bool {
        if self.is_player {
            return true;
        }
        let substream = SubStream::TABLES;
        let hints = Hints { priority: Priority::HIGHEST, frame: FrameId::NONE, substream, ..Hints::default() };
        !matches!(self.sender.send(messages, hints), Err(SendError::Full))
    }

    fn on_control(&mut self, message: Control) {
        match message {
            Control::Terms { latency, excess } => {
                let agreed = latency.max(self.sender.options().latency);
                if agreed != self.latency {
                    let (peer, ms) = (self.name(), agreed.as_millis());
                    tell(format_args!("{peer} asks for more time: latency is {ms} ms"));
                    self.latency = agreed;
                }
                self.way.excess = excess.or(self.way.excess);
            }
            Control::KeyframeWanted { .. } => self.wants_keyframe = true,
            Control::SenderClock { .. } | Control::Stream { .. } | Control::Frames { .. } => {}
        }
    }

    /// Whether the receiver requested a keyframe since the last call.
    pub(super) fn take_wants_keyframe(&mut self) -> bool {
        std::mem::take(&mut self.wants_keyframe)
    }

    /// Processes deliveries; returns whether packets were lost or dropped.
    pub(super) fn hear_fates(&mut self, journal: &mut Journal) -> bool {
        let mut lost = false;
        while let Some(delivery) = self.sender.poll_delivery() {
            lost |= matches!(delivery.fate, Fate::Lost | Fate::Dropped(_));
            if let Some(stream) = self.tracks.fate(delivery.seq, delivery.fate) {
                self.packets.count_given_up(stream as u8);
            }
            if let Some(entry) = self.entries.remove(&delivery.seq) {
                journal.settle(&entry, fate_name(delivery.fate), delivery.arrived);
            }
        }
        lost
    }

    /// Ends the stream behind all that is queued.
    pub(super) fn begin_finish(&mut self) {
        let until = clock::now() + self.latency;
        let last = Control::Frames { streams: self.tracks.frames() }.write();
        while !self.say(&last) && clock::now() < until {
            self.sender.wait(Some(clock::now() + PATIENCE));
        }
        while self.packets.ending().is_some_and(|bytes| !player::say(&mut self.sender, bytes)) && clock::now() < until {
            self.sender.wait(Some(clock::now() + PATIENCE));
        }
        self.sender.begin_finish();
    }

    /// Writes journal rows of packets whose fate is unknown.
    pub(super) fn end(&mut self, journal: &mut Journal) {
        for entry in std::mem::take(&mut self.entries).into_values() {
            journal.settle(&entry, "unknown", None);
        }
    }
}
