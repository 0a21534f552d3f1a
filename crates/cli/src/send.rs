//! `timeous send`: H.264 from a file, a pipe or RTP, to a Timeous receiver, in time or not at all.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use clap::Args;
use serde::Serialize;
use timeous::core::{AduSeq, Duration, Fate, Instant};
use timeous::{Hints, SendError, Sender, clock};
use timeous_media::{FrameKind, FrameRate, MediaAdu, Packetizer, PacketizerConfig};

use crate::adapt::{AdaptArgs, Encoder};
use crate::failure::Failure;
use crate::input;
use crate::interrupt::Interrupt;
use crate::journal::{Entry, JOURNAL, Journal, fate_name};
use crate::meter::{Meter, MeterArgs, record};
use crate::place::{Peer, Place};
use crate::plain::PlainSender;
use crate::source::{Due, Next, Source};

/// Sends live H.264 video
///
/// SOURCE is a raw H.264 (Annex B) file, '-' for standard input, udp://:port for RTP, or with --adapt what is to be
/// encoded. A file is sent at the speed at which it plays. URI is timeous://host:port?key=value&…, or udp://host:port for RTP without congestion control.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = crate::help::uri_and_exit_codes())]
pub(crate) struct SendArgs {
    /// Where the video comes from
    source: String,
    /// Where it goes
    uri: String,
    /// Frames a second, where the video does not say or says it wrong, such as 25 or 30000/1001
    #[arg(long, value_name = "RATE", value_parser = parse_frame_rate)]
    fps: Option<FrameRate>,
    /// Write a line for each packet to this CSV file: its times, its deadline, and what became of it
    #[arg(long, value_name = "FILE")]
    journal: Option<String>,
    #[command(flatten)]
    adapt: AdaptArgs,
    #[command(flatten)]
    meter: MeterArgs,
}

/// How often deliveries and statistics are looked at while nothing else happens.
const TICK: Duration = Duration::from_millis(20);

fn parse_frame_rate(text: &str) -> Result<FrameRate, String> {
    let expected = || format!("'{text}' is not a frame rate such as 25 or 30000/1001");
    let (frames, seconds) = text.split_once('/').unwrap_or((text, "1"));
    let parse = |part: &str| part.parse::<u32>().map_err(|_| expected());
    FrameRate::new(parse(frames)?, parse(seconds)?).ok_or_else(expected)
}

/// Runs the command.
pub(crate) fn run(args: &SendArgs) -> Result<(), Failure> {
    match Peer::parse(&args.uri)? {
        Peer::Timeous(mut uri) => {
            args.adapt.set_policy(&mut uri)?;
            // The first frame is waited for before anybody is called: a source that is none should not trouble a receiver.
            let (mut source, encoder) = open(args)?;
            let sender = Sender::open(&uri)?;
            Streaming::new(args, sender, encoder)?.run(&mut source)
        }
        Peer::Udp(to) => {
            args.adapt.refuse(&args.uri)?;
            send_plainly(args, to, &mut open(args)?.0)
        }
    }
}

/// The source, and the encoder that it comes from if there is one.
fn open(args: &SendArgs) -> Result<(Source, Option<Encoder>), Failure> {
    match args.adapt.start(&args.source)? {
        Some((mut encoder, outputs)) => {
            let encodings = outputs.len();
            match Source::new(input::read_from(outputs, args.fps)) {
                Ok(source) => Ok((source.live(encodings), Some(encoder))),
                Err(failure) => Err(encoder.explain(failure)),
            }
        }
        None => Ok((Source::new(input::open(&Place::parse(&args.source)?, args.fps)?)?, None)),
    }
}

/// Makes RTP packets of at most `largest` bytes.
fn packetizer(largest: usize) -> Result<Packetizer, Failure> {
    // RFC 3550 wants them to be hard to guess; the moment of the start is.
    let seed = clock::now().as_nanos() ^ u64::from(std::process::id()).rotate_left(40);
    let mut rng = timeous::core::Rng::from_seed(seed);
    Ok(Packetizer::new(PacketizerConfig {
        ssrc: rng.next_u32(),
        first_sequence: rng.next_u32() as u16,
        first_timestamp: rng.next_u32(),
        mtu: largest,
        ..PacketizerConfig::default()
    })?)
}

/// What is counted beside the stream's own statistics.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Counts {
    frames_sent: u64,
    i_frames_sent: u64,
}

/// A stream under way.
struct Streaming<'a> {
    sender: Sender,
    packetizer: Packetizer,
    meter: Meter,
    journal: Journal,
    entries: BTreeMap<AduSeq, Entry>,
    interrupt: Interrupt,
    counts: Counts,
    encoder: Option<Encoder>,
    args: &'a SendArgs,
}

impl<'a> Streaming<'a> {
    fn new(args: &'a SendArgs, sender: Sender, encoder: Option<Encoder>) -> Result<Self, Failure> {
        if let Some(encoder) = &encoder {
            sender.set_rate(encoder.bitrate());
        }
        Ok(Self {
            packetizer: packetizer(sender.max_payload())?,
            meter: Meter::new(&args.meter)?,
            journal: Journal::new(args.journal.as_deref(), JOURNAL)?,
            entries: BTreeMap::new(),
            interrupt: Interrupt::new().map_err(|error| Failure::Environment(error.to_string()))?,
            counts: Counts::default(),
            encoder,
            sender,
            args,
        })
    }

    fn run(mut self, source: &mut Source) -> Result<(), Failure> {
        let ended = self.stream(source);
        let closed = self.finish();
        ended?;
        closed?;
        source.take_flaw().map_or(Ok(()), Err)
    }

    fn stream(&mut self, source: &mut Source) -> Result<(), Failure> {
        while !self.interrupt.is_set() {
            match source.next(TICK) {
                Next::Frame(due) => {
                    let due = match &mut self.encoder {
                        Some(encoder) => encoder.pass(due),
                        None => vec![due],
                    };
                    for due in &due {
                        self.send(due)?;
                    }
                }
                Next::NotYet => {}
                Next::End => break,
            }
            self.look()?;
        }
        Ok(())
    }

    fn send(&mut self, due: &Due) -> Result<(), Failure> {
        self.counts.frames_sent += 1;
        self.counts.i_frames_sent += u64::from(matches!(due.frame.kind, FrameKind::Idr | FrameKind::I));
        for adu in self.packetizer.packetize(&due.frame) {
            let deadline = self.sender.options().has_deadlines().then(|| due.captured + self.sender.options().latency);
            let seq = self.queue(&adu, deadline)?;
            let entries = &mut self.entries;
            if self.args.journal.is_some() {
                let unix = |at: Instant| (at + clock::unix_offset()).as_nanos();
                entries.insert(seq, Entry::new(&adu, due, clock::now(), deadline, &unix));
            }
        }
        Ok(())
    }

    /// Queues a packet. A full ring holds up the source, as a full socket would.
    fn queue(&mut self, adu: &MediaAdu, deadline: Option<Instant>) -> Result<AduSeq, Failure> {
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
                Err(SendError::Full) if !self.interrupt.is_set() => {
                    self.sender.wait(Some(clock::now() + TICK));
                    self.look()?;
                }
                done => return Ok(done?),
            }
        }
    }

    /// Hears of deliveries and of advice, and writes the statistics that are due.
    fn look(&mut self) -> Result<(), Failure> {
        self.hear()?;
        if let Some(encoder) = &mut self.encoder {
            if let Some(advice) = self.sender.poll_advice() {
                self.sender.set_rate(encoder.follow(&advice));
            }
            encoder.look_after(clock::now());
        }
        if self.meter.is_due() {
            let stats = self.sender.stats();
            self.meter.write(&record(&[&stats, &self.counts]), &line(&stats))?;
        }
        Ok(())
    }

    fn hear(&mut self) -> Result<(), Failure> {
        while let Some(delivery) = self.sender.poll_delivery() {
            if let (Some(encoder), Fate::Lost | Fate::Dropped(_)) = (&mut self.encoder, delivery.fate) {
                encoder.ask_for_keyframe(clock::now());
            }
            if let Some(entry) = self.entries.remove(&delivery.seq) {
                self.journal.row(|_| format!("{},{}", entry.row, fate_name(delivery.fate)))?;
            }
        }
        Ok(())
    }

    /// Ends the stream in order, and writes down what there is even if it ended otherwise.
    fn finish(mut self) -> Result<(), Failure> {
        self.encoder = None;
        self.sender.begin_finish();
        let closed = loop {
            let status = self.sender.status();
            self.look()?;
            if let timeous::Status::Closed(reason) = status {
                break reason;
            }
            self.sender.wait(Some(clock::now() + TICK));
        };
        for entry in self.entries.values() {
            self.journal.row(|_| format!("{},unknown", entry.row))?;
        }
        self.journal.finish()?;
        let stats = self.sender.stats();
        self.meter.finish(&record(&[&stats, &self.counts]), &line(&stats))?;
        match closed {
            timeous::CloseReason::Local => Ok(()),
            reason => Err(timeous::Error::Closed(reason).into()),
        }
    }
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

/// RTP over plain UDP, each frame spread evenly until the next one: a constant rate, whatever the path bears.
fn send_plainly(args: &SendArgs, to: SocketAddr, source: &mut Source) -> Result<(), Failure> {
    let mut plain = PlainSender::new(to)?;
    let mut packetizer = packetizer(plain.largest())?;
    let mut journal = Journal::new(args.journal.as_deref(), JOURNAL)?;
    let mut meter = Meter::new(&args.meter)?;
    let interrupt = Interrupt::new().map_err(|error| Failure::Environment(error.to_string()))?;
    while !interrupt.is_set() {
        match source.next(TICK) {
            Next::Frame(due) => {
                let adus = packetizer.packetize(&due.frame);
                for adu in &adus {
                    let at = plain.send(&adu.rtp, adus.len())?;
                    journal.row(|unix| format!("{},sent", Entry::new(adu, &due, at, None, unix).row))?;
                }
            }
            Next::NotYet => {}
            Next::End => break,
        }
        if meter.is_due() {
            meter.write(&record(&[plain.stats()]), &plain.stats().line())?;
        }
    }
    journal.finish()?;
    meter.finish(&record(&[plain.stats()]), &plain.stats().line())?;
    source.take_flaw().map_or(Ok(()), Err)
}
