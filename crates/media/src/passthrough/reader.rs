//! Reader: finds the frames of RTP streams of any payload, with their kinds and capture times.

use std::collections::{BTreeSet, VecDeque};

use rtp_types::RtpPacket;
use timeous_core::{Duration, Instant, SubStream};

use super::codec::{Codec, found};
use super::dependency::{Dependencies, FrameLayers};
use super::descriptor::MAX_STREAM;
use super::reports::StreamClock;
use super::unit::PassthroughUnit;
use crate::clock::MediaClock;
use crate::error::RtpError;
use crate::pictures::Description;
use crate::rtp::RTP_CLOCK_HZ;
use crate::rtp::control::{Control, ntp};
use crate::rtp::reorder::{Ordered, Reorder};
use crate::rtp::session::{MediaDescription, MediaKind};

/// Packets of a frame that wait until its kind is known, at most. Chosen by us: more than parameter sets and messages before a slice.
const MOST_UNDESCRIBED: usize = 16;
/// Packets of a frame, at most: its number has twelve bits, and a packet may need three parts.
const MOST_PACKETS: u16 = 1_300;
/// Frames without a marker in a row after which markers are not waited for. Chosen by us: more than losses remove.
const UNMARKED: u32 = 4;
/// Silence of a source before another takes its place. Chosen by us, as for H.264: with two on one port, the first one stays.
const SILENCE: Duration = Duration::from_millis(100);
/// Time within which streams that begin anew are of one restart of their source. Chosen by us: an encoder starts its streams within
/// seconds; one that restarts alone is of another.
const RESTART: Duration = Duration::from_secs(5);
/// Most by which a frame may have been captured before it arrived: jitter of a camera's network.
const MOST_LATE: Duration = Duration::from_millis(60);
/// Clock error that is ignored. Chosen by us, as half of a usual latency.
const TOLERANCE: Duration = Duration::from_millis(100);

/// Reads RTP streams.
///
/// ```
/// use timeous_core::Instant;
/// use timeous_media::{MediaDescription, passthrough::PassthroughReader};
/// let mut reader = PassthroughReader::new([MediaDescription::of_payload_type(0)]);
/// let packet = [0x80, 0, 0, 1, 0, 0, 0, 160, 0, 0, 0, 7, 0xff, 0xff];
/// reader.push(Instant::ZERO, 0, &packet)?;
/// assert!(reader.next_unit().is_some_and(|unit| unit.last && unit.packet == packet));
/// # Ok::<(), timeous_media::RtpError>(())
/// ```
#[derive(Debug)]
pub struct PassthroughReader {
    streams: Vec<Stream>,
    /// Number of frames so far.
    frames: u32,
    ready: VecDeque<PassthroughUnit>,
    /// Whether the codec of a stream was found out since the last look.
    has_found: bool,
    /// Whether the clock of a stream became known.
    has_new_clock: bool,
    /// Restarts of the source, when the last one began, and whether it began since the last look.
    restarts: u32,
    restarted_at: Instant,
    has_restarted: bool,
    /// Latest instant passed in by the caller.
    now: Instant,
}

/// One RTP stream.
#[derive(Debug)]
struct Stream {
    description: MediaDescription,
    codec: Codec,
    substream: SubStream,
    reorder: Reorder,
    /// Synchronisation source (SSRC), and when it was last heard.
    source: Option<(u32, Instant)>,
    /// Restart of the source of which its packets are.
    restarts: u32,
    clock: MediaClock,
    /// Timestamp of the newest frame and its capture time by the clock; the last report of the source.
    newest: Option<(i64, Instant)>,
    reported: Option<StreamClock>,
    current: Option<Current>,
    /// Frames in a row that ended without a marker.
    unmarked: u32,
    places: u32,
    layers: LayerRanks,
    dependencies: Dependencies,
    /// Whether it has upper spatial layers. Then a packet waits for the next one, which tells whether its frame ends.
    has_spatial_layers: bool,
}

/// Layers of a video so far: spatial layers from the lowest, each with its temporal ones.
#[derive(Debug)]
struct LayerRanks(BTreeSet<(u8, u8)>);

impl LayerRanks {
    /// Number of a layer, from the base.
    fn rank(&mut self, spatial: u8, temporal: u8) -> u8 {
        self.0.insert((spatial, temporal));
        self.0.range(..(spatial, temporal)).count() as u8
    }
}

impl Default for LayerRanks {
    fn default() -> Self {
        Self(BTreeSet::from([(0, 0)]))
    }
}

/// Frame that has not ended, or the last one.
#[derive(Debug)]
struct Current {
    number: u32,
    place: u32,
    ticks: i64,
    spatial: u8,
    /// Frame of the next lower spatial layer of the picture.
    below: Option<u32>,
    captured: Instant,
    /// What the header extension of its first packet tells.
    told: Option<FrameLayers>,
    description: Option<Description>,
    /// Packets that were passed on, and those that wait for the description; whether packets were lost before each.
    passed: u16,
    waiting: Vec<(Vec<u8>, bool)>,
    has_ended: bool,
}

impl PassthroughReader {
    /// Creates a reader of these streams, at most sixteen.
    pub fn new(streams: impl IntoIterator<Item = MediaDescription>) -> Self {
        let mut videos = 0;
        let streams = streams.into_iter().take(usize::from(MAX_STREAM) + 1).map(|description| {
            let substream = match description.kind {
                MediaKind::Audio => SubStream::AUDIO,
                _ => {
                    videos += 1;
                    SubStream(videos - 1)
                }
            };
            Stream::new(description, substream)
        });
        Self {
            streams: streams.collect(),
            frames: 0,
            ready: VecDeque::new(),
            has_found: false,
            has_new_clock: false,
            restarts: 0,
            restarted_at: Instant::ZERO,
            has_restarted: false,
            now: Instant::ZERO,
        }
    }

    /// Takes an RTP packet of a stream, counted from zero.
    ///
    /// # Errors
    /// [`RtpError`] if the packet is refused. The stream goes on without it.
    pub fn push(&mut self, now: Instant, stream: usize, packet: &[u8]) -> Result<(), RtpError> {
        self.now = now.max(self.now);
        let rtp = RtpPacket::parse(packet).map_err(|error| RtpError::NotRtp(error.to_string()))?;
        let number = stream;
        let Some(stream) = self.streams.get_mut(number) else { return Err(RtpError::NotPassthrough) };
        let mut begins_anew = stream.admit(now, rtp.ssrc())?;
        if !stream.description.is_known()
            && let Some((kind, codec)) = found(rtp.payload())
        {
            let description =
                MediaDescription { payload_types: vec![rtp.payload_type()], ..stream.description.clone() };
            stream.description = description.with_codec(kind, codec, RTP_CLOCK_HZ);
            stream.codec = Codec::of(&stream.description);
            self.has_found = true;
        }
        if !stream.reorder.push(now, rtp.sequence_number(), rtp.timestamp(), packet) {
            let reorder = stream.reorder.restarted();
            stream.begin_anew();
            stream.reorder = reorder;
            begins_anew = true;
            stream.reorder.push(now, rtp.sequence_number(), rtp.timestamp(), packet);
        }
        if begins_anew {
            let is_of_last = stream.restarts < self.restarts && now.saturating_since(self.restarted_at) < RESTART;
            if !is_of_last {
                self.restarts += 1;
                (self.restarted_at, self.has_restarted) = (now, true);
            }
            stream.restarts = self.restarts;
        }
        self.advance(number);
        Ok(())
    }

    /// Takes an RTCP packet of a stream: its sender reports tell its clock.
    pub fn push_control(&mut self, stream: usize, packet: &[u8]) {
        let Some(stream) = self.streams.get_mut(stream) else { return };
        for message in Control::read(packet) {
            if let Control::SenderClock { ntp, timestamp, .. } = message {
                self.has_new_clock |= stream.reported.is_none();
                stream.reported = Some(StreamClock { ntp, timestamp });
            }
        }
    }

    /// Clocks of the streams against one wall clock: that of the source if it reports on all of them, else that of this host, whose
    /// instants are `unix` after those passed in.
    pub fn clocks(&self, unix: Duration) -> Vec<Option<StreamClock>> {
        let are_reported = self.are_reported();
        let clocks = self.streams.iter().map(|stream| {
            let by_arrival = stream
                .newest
                .map(|(ticks, captured)| StreamClock { ntp: ntp(captured + unix), timestamp: ticks as u32 });
            if are_reported { stream.reported } else { by_arrival }
        });
        clocks.collect()
    }

    /// Whether the source has reported on all streams.
    pub fn are_reported(&self) -> bool {
        self.streams.iter().all(|stream| stream.reported.is_some())
    }

    /// Whether the clock of a stream became known since the last call, by a report or by its first frame.
    pub fn take_has_new_clock(&mut self) -> bool {
        std::mem::take(&mut self.has_new_clock)
    }

    /// Whether the source has begun anew since the last call.
    pub fn take_has_restarted(&mut self) -> bool {
        std::mem::take(&mut self.has_restarted)
    }

    /// Gives up the wait for packets that did not come.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.now = now.max(self.now);
        (0..self.streams.len()).for_each(|number| self.advance(number));
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.streams.iter().filter_map(|stream| stream.reorder.poll_timeout()).min()
    }

    /// Returns the next packet, with the metadata of its frame.
    pub fn next_unit(&mut self) -> Option<PassthroughUnit> {
        self.ready.pop_front()
    }

    /// Descriptions of the streams, with what was found out about them.
    pub fn descriptions(&self) -> impl Iterator<Item = &MediaDescription> {
        self.streams.iter().map(|stream| &stream.description)
    }

    /// Whether a codec was found out since the last call.
    pub fn take_has_found(&mut self) -> bool {
        std::mem::take(&mut self.has_found)
    }

    fn advance(&mut self, number: usize) {
        let Some(stream) = self.streams.get_mut(number) else { return };
        while let Some(packet) = stream.reorder.next(self.now) {
            let before = self.ready.len();
            let is_known = stream.newest.is_some();
            stream.take(packet, &mut self.frames, &mut self.ready);
            for unit in self.ready.range_mut(before..) {
                (unit.stream, unit.restarts) = (number as u8, self.restarts);
            }
            self.has_new_clock |= stream.newest.is_some() != is_known;
        }
    }
}

impl Stream {
    fn new(description: MediaDescription, substream: SubStream) -> Self {
        Self {
            codec: Codec::of(&description),
            dependencies: Dependencies::of(&description),
            description,
            substream,
            reorder: Reorder::default(),
            source: None,
            restarts: 0,
            clock: MediaClock::new(TOLERANCE),
            newest: None,
            reported: None,
            current: None,
            unmarked: 0,
            places: 0,
            layers: LayerRanks::default(),
            has_spatial_layers: false,
        }
    }

    /// Checks the source of a packet; returns whether another one has taken over, when the last one was silent.
    fn admit(&mut self, now: Instant, ssrc: u32) -> Result<bool, RtpError> {
        let mut is_another = false;
        if let Some((expected, heard)) = self.source.filter(|(known, _)| *known != ssrc) {
            if now.saturating_since(heard) < SILENCE {
                return Err(RtpError::Source { found: ssrc, expected });
            }
            self.begin_anew();
            is_another = true;
        }
        self.source = Some((ssrc, now));
        Ok(is_another)
    }

    /// Begins anew with another source, or the same one restarted.
    fn begin_anew(&mut self) {
        self.reorder = Reorder::default();
        self.clock = MediaClock::new(TOLERANCE);
        (self.newest, self.reported, self.current) = (None, None, None);
        self.codec = Codec::of(&self.description);
        (self.layers, self.has_spatial_layers) = (LayerRanks::default(), false);
        self.dependencies = Dependencies::of(&self.description);
    }

    fn take(&mut self, packet: Ordered, frames: &mut u32, ready: &mut VecDeque<PassthroughUnit>) {
        let Ok(rtp) = RtpPacket::parse(&packet.packet) else { return };
        let marker = rtp.marker_bit();
        let told = rtp.extension().and_then(|(profile, bytes)| self.dependencies.read(profile, bytes));
        let spatial = self.codec.spatial_layer(rtp.payload()).or(told.map(|told| told.spatial));
        let picture = self.current.as_ref().filter(|current| !current.has_ended && current.ticks == packet.ticks);
        let goes_on = picture.is_some_and(|current| {
            current.passed < MOST_PACKETS && spatial.is_none_or(|spatial| spatial == current.spatial)
        });
        if !goes_on {
            // A picture that is cut for its length has no layer below.
            let layer = picture.filter(|current| spatial.is_some_and(|spatial| spatial != current.spatial));
            let below = layer.map(|current| (current.number, current.captured));
            match below {
                Some(_) => self.end_below(ready),
                None => self.end(ready),
            }
            *frames += 1;
            self.has_spatial_layers |= spatial.is_some_and(|spatial| spatial > 0);
            self.current = Some(Current {
                number: *frames,
                place: self.places,
                ticks: packet.ticks,
                spatial: spatial.unwrap_or(0),
                below: below.map(|(number, _)| number),
                captured: below.map_or_else(|| self.captured(&packet), |(_, captured)| captured),
                told,
                description: None,
                passed: 0,
                waiting: Vec::new(),
                has_ended: false,
            });
            self.places = self.places.wrapping_add(1);
        }
        // Packets of audio stand for themselves (RFC 7587 §4.2: each with a timestamp of its own); fragments of AAC are rare.
        let is_last = marker || self.unmarked >= UNMARKED || matches!(self.codec, Codec::Audio);
        self.unmarked = if marker { 0 } else { self.unmarked };
        let Some(current) = &mut self.current else { return };
        current.has_ended = is_last;
        current.waiting.push((packet.packet, packet.has_gap));
        let all = is_last || current.waiting.len() >= MOST_UNDESCRIBED;
        self.pass(all, ready);
    }

    /// Ends a frame of a spatial layer, behind which another one of its picture begins.
    fn end_below(&mut self, ready: &mut VecDeque<PassthroughUnit>) {
        let before = ready.len();
        let unmarked = self.unmarked;
        self.end(ready);
        self.unmarked = unmarked;
        if let Some(unit) = ready.range_mut(before..).last() {
            unit.is_below = true;
        }
    }

    /// Ends a frame that had no marker, so that its end is known.
    fn end(&mut self, ready: &mut VecDeque<PassthroughUnit>) {
        let Some(current) = self.current.as_mut().filter(|current| !current.has_ended) else { return };
        self.unmarked += 1;
        current.has_ended = true;
        if current.waiting.is_empty() {
            current.waiting.push((Vec::new(), false));
        }
        self.pass(true, ready);
    }

    /// Passes on the packets of the current frame, if it can be described.
    fn pass(&mut self, all: bool, ready: &mut VecDeque<PassthroughUnit>) {
        let Some(current) = &mut self.current else { return };
        let Some(description) = current.describe(&mut self.codec, all) else { return };
        let Description { kind, references, priority, layer, spatial } = description;
        let layer = self.layers.rank(spatial, layer);
        let kept = usize::from(self.has_spatial_layers && !current.has_ended);
        let count = current.waiting.len();
        for (at, (packet, has_gap)) in current.waiting.drain(..count.saturating_sub(kept)).enumerate() {
            ready.push_back(PassthroughUnit {
                stream: 0,
                frame: current.number,
                place: current.place,
                first: current.passed,
                last: current.has_ended && at + 1 == count,
                is_below: false,
                has_gap,
                kind,
                restarts: 0,
                references,
                priority,
                substream: self.substream,
                layer,
                captured: current.captured,
                packet,
            });
            current.passed += 1;
        }
    }

    /// Capture time by the source's clock, corrected to the arrival where the two are far apart.
    fn captured(&mut self, packet: &Ordered) -> Instant {
        if self.description.clock_rate == 0 {
            return packet.arrived;
        }
        let ticks = i128::from(packet.ticks) * i128::from(RTP_CLOCK_HZ) / i128::from(self.description.clock_rate);
        let ticks = i64::try_from(ticks).unwrap_or(0);
        self.clock.observe(ticks, packet.arrived, true);
        self.newest = Some((packet.ticks, self.clock.instant(ticks)));
        self.clock.instant(ticks).clamp(packet.arrived.saturating_sub(MOST_LATE), packet.arrived)
    }
}

impl Current {
    /// Describes the frame by the packets that wait, if it is not described yet.
    fn describe(&mut self, codec: &mut Codec, all: bool) -> Option<Description> {
        if self.description.is_none() {
            let packets = self.waiting.iter().filter_map(|(packet, _)| RtpPacket::parse(packet).ok());
            let packets: Vec<_> = packets.collect();
            self.description =
                codec.describe(self.number, (self.below, self.told), packets.iter().map(RtpPacket::payload), all);
        }
        self.description
    }
}
