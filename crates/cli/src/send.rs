//! `timeous send`: sends live H.264, MPEG-TS or RTP from a file, pipe, UDP or encoder to Timeous receivers, and drops late data.

mod link;
mod outlet;
mod packets;
mod player;
mod qlog;
mod request;
mod tracks;

use std::collections::VecDeque;
use std::net::SocketAddr;

use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use timeous::core::Duration;
use timeous::{CloseReason, Intent, PolicyName, Status, Uri, clock};
use timeous_media::FrameRate;

use self::link::{Link, LinkCounts};
use self::outlet::Outlet;
use self::packets::Packets;
use self::qlog::Qlog;
pub(crate) use self::tracks::SentTrack;
use self::tracks::SentTracks;
use crate::adapt::{AdaptArgs, Encoder};
use crate::failure::Failure;
use crate::files::check_distinct;
use crate::input::{self, Format, OpenedSource, Pace, RtpSource};
use crate::interrupt::Interrupt;
use crate::journal::{JOURNAL, Journal};
use crate::meter::{Fields, Meter, MeterArgs, TRACKS, json, record};
use crate::notice::tell;
use crate::place::{Peer, Place, Player};
use crate::plain::PlainSender;
use crate::security::tell_security;
use crate::source::{DueFrame, NextFrame, Source};

/// Sends live video and audio: raw H.264 or H.265, MPEG-TS, MP4, Matroska, IVF, AAC, Ogg, or RTP of any codec
///
/// SOURCE is a file of raw H.264 or H.265 (Annex B), MPEG-TS, MP4, Matroska, IVF, AAC (ADTS) or Ogg, '-' for standard input, udp://:port for RTP or MPEG-TS, an SDP file
/// (.sdp) that describes RTP, or with --adapt the video to encode. A file is sent in real time; pipes and RTP are live: frames that find no
/// receiver in time are dropped. URI is timeous://host:port?key=value&…, udp://host:port for RTP without congestion
/// control, or http://:port or tcp://host:port for players that read FLV. With a host it calls, and redials if necessary; without one it waits for any number of receivers.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = crate::help::uri_and_exit_codes())]
pub(crate) struct SendArgs {
    /// Source of the video
    source: String,
    /// Destination of the video
    uri: String,
    /// Frames per second of a file that does not declare it, or declares it wrong, such as 25 or 30000/1001
    #[arg(long, value_name = "RATE", value_parser = parse_frame_rate)]
    fps: Option<FrameRate>,
    /// Take the arrival of frames as their capture time, even from a file
    #[arg(long, conflicts_with = "file")]
    live: bool,
    /// Send at the frame rate that the stream declares, even from a pipe
    #[arg(long)]
    file: bool,
    /// With an RTP source: its payload type, if it is not the first dynamic one
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=127), conflicts_with = "adapt")]
    pt: Option<u8>,
    /// Write a line for each packet to this CSV file, with its times, deadline and fate
    #[arg(long, value_name = "FILE")]
    journal: Option<String>,
    /// Write what congestion control does to this qlog file: windows, losses, predicted and actual arrivals
    #[arg(long, value_name = "FILE")]
    qlog: Option<String>,
    #[command(flatten)]
    adapt: AdaptArgs,
    #[command(flatten)]
    meter: MeterArgs,
}

/// Longest wait for a receiver's close after the user's interrupt, beyond the latency.
const PARTING: Duration = Duration::from_secs(1);
/// Longest wait between two checks of deliveries and statistics.
const TICK: Duration = Duration::from_millis(20);

fn parse_frame_rate(text: &str) -> Result<FrameRate, String> {
    let expected = || format!("'{text}' is not a frame rate such as 25 or 30000/1001");
    let (frames, seconds) = text.split_once('/').unwrap_or((text, "1"));
    let parse = |part: &str| part.parse::<u32>().map_err(|_| expected());
    FrameRate::new(parse(frames)?, parse(seconds)?).ok_or_else(expected)
}

/// Runs the command.
pub(crate) fn run(args: &SendArgs) -> Result<(), Failure> {
    // An encoder's source may be anything.
    let source = Place::parse(&args.source).ok();
    check_distinct(&[
        ("SOURCE", source.as_ref().and_then(Place::path)),
        ("--journal", args.journal.as_deref()),
        ("--qlog", args.qlog.as_deref()),
        ("--stats", args.meter.file()),
    ])?;
    match Peer::parse(&args.uri)? {
        Peer::Timeous(uri) => stream(args, uri, None),
        Peer::Player(uri, player) => {
            if args.journal.is_some() {
                let why = "--journal lists RTP packets, and a player gets none: leave it out";
                return Err(Failure::Usage(why.to_owned()));
            }
            stream(args, uri, Some(player))
        }
        Peer::Udp(to) => {
            args.adapt.refuse(&args.uri)?;
            if args.qlog.is_some() {
                let why = "--qlog is of congestion control, and udp:// has none: leave it out";
                return Err(Failure::Usage(why.to_owned()));
            }
            let (opened, encoder) = open(args)?;
            let interrupt = interrupt()?;
            match begin(opened, encoder, &interrupt)? {
                Some((mut source, _)) => send_plainly(args, to, &mut source, &interrupt),
                None => Ok(()),
            }
        }
    }
}

/// Sends to Timeous receivers, or to players.
fn stream(args: &SendArgs, mut uri: Uri, player: Option<Player>) -> Result<(), Failure> {
    args.adapt.set_policy(&mut uri)?;
    let qlog = args.qlog.as_deref().map(Qlog::open).transpose()?;
    tell_security(&uri);
    uri.options.security.callers = Some(Intent::Play);
    let (opened, encoder) = open(args)?;
    // Before the message that it listens: who reads it may interrupt.
    let interrupt = interrupt()?;
    // A live source does not wait, so its receiver is called at once. For a file, the call follows the first
    // frame, so that a file without video does not disturb a receiver.
    let early = if opened.is_live { Some(Outlet::open(&uri, player)?) } else { None };
    let (source, encoder) = match begin(opened, encoder, &interrupt) {
        Ok(Some(begun)) => begun,
        ended => {
            early.into_iter().for_each(Outlet::close);
            return ended.map(|_| ());
        }
    };
    // Before a player is let in.
    let container = match player.map(|player| Packets::for_player(source.format(), player)) {
        Some(Err(failure)) => {
            early.into_iter().for_each(Outlet::close);
            return Err(failure);
        }
        Some(Ok(packets)) => packets.container(),
        None => None,
    };
    let mut outlet = early.map_or_else(|| Outlet::open(&uri, player), Ok)?;
    container.into_iter().for_each(|container| outlet.serve(container));
    let streaming = Streaming::new((args, player), uri.options.latency, outlet, source, encoder, interrupt)?;
    Streaming { qlog, ..streaming }.run()
}

/// Opens the source, or starts the encoder that it comes from.
fn open(args: &SendArgs) -> Result<(OpenedSource, Option<Encoder>), Failure> {
    if let Some((encoder, outputs)) = args.adapt.start(&args.source)? {
        return Ok((input::read_from(outputs, args.fps), Some(encoder)));
    }
    let pace = match (args.live, args.file) {
        (true, _) => Pace::Live,
        (_, true) => Pace::Paced,
        _ => Pace::ByKind,
    };
    let rtp = RtpSource { payload_type: args.pt, ..RtpSource::default() };
    Ok((input::open(&Place::parse(&args.source)?, args.fps, pace, rtp)?, None))
}

fn interrupt() -> Result<Interrupt, Failure> {
    Interrupt::new().map_err(|error| Failure::Environment(error.to_string()))
}

/// Waits for the first frame, or for an interrupt: `None`.
fn begin(
    opened: OpenedSource,
    encoder: Option<Encoder>,
    interrupt: &Interrupt,
) -> Result<Option<(Source, Option<Encoder>)>, Failure> {
    match (Source::new(opened, interrupt), encoder) {
        (Ok(source), encoder) => Ok(source.map(|source| (source, encoder))),
        (Err(failure), Some(mut encoder)) => Err(encoder.explain(failure)),
        (Err(failure), None) => Err(failure),
    }
}

/// Counters beyond the stream's own statistics.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SenderCounts {
    /// Frames handed to the stream of this receiver; packets of them may be dropped later. Frames of MPEG-TS are PES packets, of video, audio and tables.
    frames_sent: u64,
    /// Keyframes among them.
    i_frames_sent: u64,
    /// Frames that this receiver was not sent, before its entry point or for want of room in the send queue, and those that found no receiver.
    frames_not_sent: u64,
    /// Receivers that have connected.
    receivers: u64,
    /// Connections after a break.
    reconnections: u64,
}

/// Totals of the frames and packets to a receiver that is gone.
#[derive(Default)]
struct Departed {
    stats: timeous::Stats,
    counts: LinkCounts,
    tracks: SentTracks,
}

/// Running stream.
struct Streaming<'a> {
    format: Format,
    source: Source,
    outlet: Outlet,
    links: Vec<Link>,
    /// Frames since the last entry point, kept within the latency while no receiver is connected.
    backlog: VecDeque<DueFrame>,
    latency: Duration,
    /// Packetizer for a called receiver, kept over reconnections so that sequence numbers continue.
    packets: Option<Packets>,
    sets: ParameterSets,
    meter: Meter,
    journal: Journal,
    qlog: Option<Qlog>,
    interrupt: Interrupt,
    /// Counters that are of no single receiver.
    counts: SenderCounts,
    encoder: Option<Encoder>,
    /// The last receiver, for records while none is connected.
    last: Departed,
    /// Close reason of the last receiver, if none is connected.
    lost: Option<CloseReason>,
    args: &'a SendArgs,
    player: Option<Player>,
}

/// Parameter sets for decoders that join: those of the last frame that had some.
#[derive(Default)]
struct ParameterSets(Vec<Vec<u8>>);

impl ParameterSets {
    fn of(&mut self, nals: &[Vec<u8>]) {
        let sets: Vec<Vec<u8>> = nals.iter().filter(|nal| timeous_media::is_parameter_set(nal)).cloned().collect();
        if !sets.is_empty() {
            self.0 = sets;
        }
    }

    /// Parameter sets that a frame with these NAL units lacks.
    fn missing_in(&self, nals: &[Vec<u8>]) -> &[Vec<u8>] {
        if nals.iter().any(|nal| timeous_media::is_parameter_set(nal)) { &[] } else { &self.0 }
    }
}

impl<'a> Streaming<'a> {
    fn new(
        (args, player): (&'a SendArgs, Option<Player>),
        latency: Duration,
        outlet: Outlet,
        source: Source,
        encoder: Option<Encoder>,
        interrupt: Interrupt,
    ) -> Result<Self, Failure> {
        Ok(Self {
            format: source.format(),
            outlet,
            source,
            links: Vec::new(),
            backlog: VecDeque::new(),
            latency,
            packets: None,
            sets: ParameterSets::default(),
            meter: Meter::new(&args.meter)?,
            journal: Journal::new(args.journal.as_deref(), JOURNAL)?,
            qlog: None,
            interrupt,
            counts: SenderCounts::default(),
            encoder,
            last: Departed::default(),
            lost: None,
            args,
            player,
        })
    }

    fn run(mut self) -> Result<(), Failure> {
        let ended = self.stream();
        let closed = self.finish();
        ended?;
        closed?;
        self.source.take_flaw().map_or(Ok(()), Err)
    }

    fn stream(&mut self) -> Result<(), Failure> {
        // A file waits for its first receiver.
        while !self.source.is_live() && self.links.is_empty() && !self.interrupt.is_set() {
            self.connect()?;
            if self.links.is_empty() {
                self.outlet.wait(TICK);
            }
        }
        while !self.interrupt.is_set() {
            self.connect()?;
            match self.source.next(TICK) {
                NextFrame::Frame(due) => {
                    let dues = match &mut self.encoder {
                        Some(encoder) => encoder.pass(*due),
                        None => vec![*due],
                    };
                    for due in dues {
                        self.keep_or_send(due)?;
                    }
                }
                NextFrame::NotYet => {}
                NextFrame::End => return self.wait_with_backlog(),
            }
            self.look()?;
        }
        Ok(())
    }

    /// Handles the end of the source: keeps the backlog for a receiver until it is too old.
    fn wait_with_backlog(&mut self) -> Result<(), Failure> {
        while !self.backlog.is_empty() && !self.is_backlog_stale() && !self.interrupt.is_set() {
            self.connect()?;
            if self.links.is_empty() {
                self.outlet.wait(TICK);
            }
        }
        self.drop_backlog();
        Ok(())
    }

    fn is_backlog_stale(&self) -> bool {
        self.backlog.front().is_some_and(|first| first.captured + self.latency < clock::now())
    }

    fn drop_backlog(&mut self) {
        self.counts.frames_not_sent += self.backlog.iter().filter(|due| due.part.is_first()).count() as u64;
        self.backlog.clear();
    }

    /// Adds receivers that have connected.
    fn connect(&mut self) -> Result<(), Failure> {
        while let Some(((sender, receiver), player)) = self.outlet.poll()? {
            if let Some(encoder) = &mut self.encoder {
                sender.set_rate(encoder.bitrate());
                encoder.ask_for_keyframe(clock::now());
            }
            let kept = if self.outlet.is_listener() { None } else { self.packets.take() };
            let packets = match (kept, player) {
                (Some(packets), _) => packets,
                (None, Some(player)) => Packets::for_player(self.format, player)?,
                (None, None) => {
                    let has_layers = sender.options().policy == Some(PolicyName::Layers);
                    Packets::new(self.format, sender.max_payload(), true, has_layers)?
                }
            };
            let link = Link::new(sender, receiver, packets);
            if self.args.meter.is_verbose() || self.lost.is_some() || self.outlet.is_listener() {
                tell(format_args!("connected to {}", link.name()));
            }
            self.counts.receivers += 1;
            self.counts.reconnections += u64::from(self.lost.take().is_some());
            self.links.push(link);
            for due in std::mem::take(&mut self.backlog) {
                self.send(&due)?;
            }
        }
        Ok(())
    }

    fn keep_or_send(&mut self, due: DueFrame) -> Result<(), Failure> {
        if due.part.is_first() {
            self.sets.of(due.part.nals());
        }
        if !self.links.is_empty() {
            // With a listener, receivers may come and go.
            self.lost = self.lost.take().filter(|_| !self.outlet.is_listener());
            return self.send(&due);
        }
        let is_entry = due.part.is_entry();
        if is_entry || self.is_backlog_stale() {
            self.drop_backlog();
        }
        if is_entry || !self.backlog.is_empty() {
            self.backlog.push_back(due);
        } else {
            self.counts.frames_not_sent += u64::from(due.part.is_first());
        }
        Ok(())
    }

    fn send(&mut self, due: &DueFrame) -> Result<(), Failure> {
        let wait = !self.source.is_live() && self.links.len() == 1;
        let sets = self.sets.missing_in(due.part.nals());
        for link in &mut self.links {
            link.send(due, sets, &mut self.journal, wait)?;
        }
        Ok(())
    }

    /// Processes deliveries, requests and advice, removes closed receivers, and writes due statistics.
    fn look(&mut self) -> Result<(), Failure> {
        let now = clock::now();
        self.qlog.iter_mut().for_each(Qlog::look);
        for link in &mut self.links {
            link.talk(&self.source);
            let lost = link.hear_fates(&mut self.journal);
            let wanted = link.take_wants_keyframe();
            if let Some(encoder) = &mut self.encoder {
                if lost || wanted {
                    encoder.ask_for_keyframe(now);
                }
                if let Some(advice) = link.sender.poll_advice() {
                    link.sender.set_rate(encoder.follow(&advice));
                }
            }
        }
        if let Some(encoder) = &mut self.encoder {
            encoder.look_after(now);
        }
        self.see_who_is_gone()?;
        if self.meter.is_due() {
            self.report(false)?;
        }
        Ok(())
    }

    fn see_who_is_gone(&mut self) -> Result<(), Failure> {
        for at in (0..self.links.len()).rev() {
            let Status::Closed(reason) = self.links[at].sender.status() else { continue };
            let mut link = self.links.remove(at);
            link.hear_fates(&mut self.journal);
            link.end(&mut self.journal);
            // The thread or daemon that ran this connection is gone, and with it the listener: nobody can connect any more.
            let is_over = self.outlet.is_listener() && matches!(reason, CloseReason::Abandoned);
            // Another call would be refused, too.
            let is_over = is_over || reason.wants_encryption() || !self.outlet.gone();
            if !is_over {
                let then = if self.outlet.is_listener() { "" } else { "; calling again" };
                tell(format_args!("{} is gone: {reason}{then}", link.name()));
                // The last record of a stream that is over follows at its end.
                self.meter.record(&self.record_of(&link).0);
            }
            tell_summary(&link);
            self.last = Departed { stats: link.sender.stats(), counts: link.counts, tracks: link.tracks };
            if is_over {
                return Err(timeous::Error::Closed(reason).into());
            }
            self.lost = Some(reason);
            if !self.outlet.is_listener() {
                self.packets = Some(link.packets);
            }
        }
        Ok(())
    }

    /// Writes a record for each receiver, or one without a receiver.
    fn report(&mut self, last: bool) -> Result<(), Failure> {
        let mut records: Vec<_> = Vec::new();
        for link in &self.links {
            records.push(self.record_of(link));
        }
        if records.is_empty() {
            let Departed { stats, counts, tracks } = &self.last;
            let said = if last { line(stats) } else { "waiting for a receiver".to_owned() };
            records.push((self.fields(stats, *counts, tracks), said));
        }
        if last {
            return self.meter.finish_all(&records);
        }
        self.meter.write_all(&records);
        Ok(())
    }

    /// Record of a receiver, and its line on the terminal.
    fn record_of(&self, link: &Link) -> (Fields, String) {
        let stats = link.sender.stats();
        let mut fields = self.fields(&stats, link.counts, &link.tracks);
        fields.insert("peer".to_owned(), link.name().into());
        (fields, line(&stats))
    }

    /// Fields of a record: all counts of frames and packets are those of one receiver's connection.
    fn fields(&self, stats: &timeous::Stats, of: LinkCounts, tracks: &SentTracks) -> Fields {
        let counts = SenderCounts {
            frames_sent: of.frames,
            i_frames_sent: of.i_frames,
            frames_not_sent: self.counts.frames_not_sent + of.skipped,
            ..self.counts
        };
        let mut fields = record(&[stats, &counts]);
        fields.insert(TRACKS.to_owned(), json(&tracks.all()));
        fields
    }

    /// Ends the stream, in order if possible, and writes the last statistics and journal rows.
    fn finish(&mut self) -> Result<(), Failure> {
        self.encoder = None;
        self.links.iter_mut().for_each(Link::begin_finish);
        let mut ended = Vec::new();
        // After the user's interrupt, receivers that are gone are not waited for.
        let until = self.interrupt.is_set().then(|| clock::now() + self.latency + PARTING);
        while !self.links.is_empty() && until.is_none_or(|until| clock::now() < until) {
            for at in (0..self.links.len()).rev() {
                // Read the status first: deliveries before the end are processed below.
                let status = self.links[at].sender.status();
                self.links[at].hear_fates(&mut self.journal);
                if let Status::Closed(reason) = status {
                    let mut link = self.links.remove(at);
                    link.end(&mut self.journal);
                    ended.push((link, reason));
                }
            }
            // The last records of those that have ended follow: one without a receiver would be of a stream that has not begun.
            if let Some(link) = self.links.first() {
                link.sender.wait(Some(clock::now() + TICK));
                self.qlog.iter_mut().for_each(Qlog::look);
                if self.meter.is_due() {
                    self.report(false)?;
                }
            }
        }
        for mut link in std::mem::take(&mut self.links) {
            link.end(&mut self.journal);
            ended.push((link, CloseReason::Timeout));
        }
        if ended.is_empty() {
            let journal = self.journal.finish();
            self.report(true).and(journal)?;
            // With a listener, receivers may come and go.
            return self
                .lost
                .take()
                .filter(|_| !self.outlet.is_listener())
                .map_or_else(|| self.nobody_came(), |reason| Err(timeous::Error::Closed(reason).into()));
        }
        ended.iter().for_each(|(link, _)| tell_summary(link));
        // A player that has read the end closes at once.
        let is_in_order = |reason| reason == CloseReason::Local || self.player.is_some() && reason == CloseReason::Peer;
        let failed = ended.iter().map(|(_, reason)| *reason).find(|reason| !is_in_order(*reason));
        let records: Vec<_> = ended.iter().map(|(link, _)| self.record_of(link)).collect();
        let journal = self.journal.finish();
        self.meter.finish_all(&records).and(journal)?;
        failed.map_or(Ok(()), |reason| Err(timeous::Error::Closed(reason).into()))
    }

    /// Fails if no receiver was ever connected at the end of the stream.
    fn nobody_came(&self) -> Result<(), Failure> {
        if self.outlet.is_listener() || self.counts.receivers > 0 || self.interrupt.is_set() {
            return Ok(());
        }
        let frames = self.counts.frames_not_sent;
        Err(Failure::Peer(format!("no receiver was there: {frames} frames were not sent")))
    }
}

/// Tells what became of the frames and packets to a receiver.
fn tell_summary(link: &Link) {
    tell(format_args!("{}", link.summary()));
    link.tracks.lines().into_iter().for_each(|line| tell(format_args!("{line}")));
}

fn line(stats: &timeous::Stats) -> String {
    format!(
        "{:6.1} s  {:7.0} kbit/s of {:7.0}  rtt {:4.0} ms  queued {:4} ({:4.0} ms)  acked {}  lost {}  repaired {}  \
         given up {} (expired {})",
        stats.ms_time_stamp as f64 / 1e3,
        stats.mbps_send_rate * 1e3,
        stats.mbps_bandwidth * 1e3,
        stats.ms_rtt,
        stats.pkt_snd_buf,
        stats.ms_snd_buf,
        stats.pkt_acked_total,
        stats.pkt_snd_loss_total,
        stats.pkt_retrans_total,
        stats.pkt_snd_drop_total,
        stats.pkt_snd_expired_total,
    )
}

/// Sends RTP over plain UDP at a constant rate: each frame is spread evenly up to the next one.
fn send_plainly(args: &SendArgs, to: SocketAddr, source: &mut Source, interrupt: &Interrupt) -> Result<(), Failure> {
    let mut plain = PlainSender::new(to)?;
    let mut packets = Packets::new(source.format(), plain.largest(), false, false)?;
    let mut journal = Journal::new(args.journal.as_deref(), JOURNAL)?;
    let mut meter = Meter::new(&args.meter)?;
    while !interrupt.is_set() {
        match source.next(TICK) {
            NextFrame::Frame(due) => {
                let adus = packets.packetize(&due.part, &[], &due.stamp);
                // Transport streams and RTP have a pace of their own.
                let of = if due.part.begins_anywhere() { usize::MAX } else { adus.len() };
                for adu in &adus {
                    let at = plain.send(&adu.rtp, of)?;
                    let entry = journal.entry(adu, &due, at, None);
                    journal.settle(&entry, "sent", None);
                }
            }
            NextFrame::NotYet => {}
            NextFrame::End => break,
        }
        if meter.is_due() {
            meter.write(&record(&[plain.stats()]), &plain.stats().line());
        }
    }
    let journal = journal.finish();
    meter.finish(&record(&[plain.stats()]), &plain.stats().line()).and(journal)?;
    source.take_flaw().map_or(Ok(()), Err)
}
