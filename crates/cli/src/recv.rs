//! `timeous recv`: what came in time and can be decoded, as H.264 for a file, a pipe or a player.

use clap::Args;
use serde::Serialize;
use serde_json::Value;
use timeous::core::units::parse_duration;
use timeous::core::{Duration, Instant};
use timeous::{Arrival, Receiver, clock};
use timeous_media::{FrameFate, FrameKind, Playout, PlayoutConfig};

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::journal::Journal;
use crate::meter::{Fields, Meter, MeterArgs, record};
use crate::output::{Output, SinkArgs};
use crate::place::{Peer, Place};
use crate::plain::PlainReceiver;

/// Receives live H.264 video
///
/// URI is timeous://:port?latency=…, or udp://:port for RTP without congestion control. SINK is a file (raw H.264, or
/// MP4 if its name ends with .mp4), '-' for standard output, or udp://host:port for RTP to a player. Only frames that
/// are whole, decodable and in time are written, as soon as they are.
///
/// A file is made when the first frame comes. A file that exists is left alone, unless --overwrite is given; with %n in
/// its name, each recording gets the next free number. An MP4 file plays up to its last second even if the receiver was
/// killed. A sink that is too slow never stalls the stream: frames are left out up to the next at which a decoder can
/// begin.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = crate::help::uri_and_exit_codes())]
pub(crate) struct RecvArgs {
    /// Where the video comes from
    uri: String,
    /// Where it goes
    sink: String,
    /// With udp://: the time from capture to playout
    #[arg(long, value_name = "TIME", default_value = "300ms", value_parser = parse_duration)]
    latency: Duration,
    /// Write a line for each frame to this CSV file: its times, and what became of it
    #[arg(long, value_name = "FILE")]
    frames: Option<String>,
    #[command(flatten)]
    output: SinkArgs,
    #[command(flatten)]
    meter: MeterArgs,
}

/// How long at most nothing is looked at.
const TICK: Duration = Duration::from_millis(100);

/// Runs the command.
pub(crate) fn run(args: &RecvArgs) -> Result<(), Failure> {
    let place = Place::parse(&args.sink)?;
    let peer = Peer::parse(&args.uri)?;
    let output = Output::open(&place, &args.output)?;
    // Until somebody has called there is nothing to keep, and a signal ends the process as usual.
    let interrupt = || Interrupt::new().map_err(|error| Failure::Environment(error.to_string()));
    match peer {
        Peer::Timeous(uri) => {
            let mut receiver = Receiver::open(&uri)?;
            let interrupt = interrupt()?;
            let screen = Screen::new(args, uri.options.latency, output)?;
            receive(&mut receiver, screen, &interrupt)
        }
        Peer::Udp(local) => {
            let mut receiver = PlainReceiver::new(local)?;
            let interrupt = interrupt()?;
            let screen = Screen::new(args, args.latency, output)?;
            receive_plainly(&mut receiver, screen, &interrupt)
        }
    }
}

fn receive(receiver: &mut Receiver, mut screen: Screen, interrupt: &Interrupt) -> Result<(), Failure> {
    let mut closing = false;
    let ended = loop {
        if interrupt.is_set() && !closing {
            closing = true;
            receiver.close();
        }
        match receiver.receive(Some(screen.due())) {
            Ok(Arrival::Data(received)) => screen.take(received.at, &received.bytes)?,
            Ok(Arrival::Nothing) => screen.pass_time()?,
            Ok(Arrival::End) => break Ok(()),
            // Whether the sender has heard of it is no matter to one who has had enough.
            Err(_) if closing => break Ok(()),
            Err(error) => break Err(Failure::from(error)),
        }
        if screen.meter.is_due() {
            screen.report(&record(&[&receiver.stats()]))?;
        }
    };
    let finished = screen.finish(&record(&[&receiver.stats()]));
    ended?;
    finished
}

fn receive_plainly(receiver: &mut PlainReceiver, mut screen: Screen, interrupt: &Interrupt) -> Result<(), Failure> {
    while !interrupt.is_set() && !receiver.has_ended() {
        match receiver.receive(screen.due())? {
            Some((packet, at)) => screen.take(at, packet)?,
            None => screen.pass_time()?,
        }
        if screen.meter.is_due() {
            screen.report(&record(&[receiver.stats()]))?;
        }
    }
    screen.finish(&record(&[receiver.stats()]))
}

/// What became of the frames of which something came.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Counts {
    frames_decodable: u64,
    i_frames_decodable: u64,
    frames_incomplete: u64,
    frames_late: u64,
    frames_reference_missing: u64,
    frames_unreadable: u64,
    pkt_rcv_loss_total: u64,
    pkt_rcv_belated: u64,
    pkt_rcv_duplicate: u64,
    pkt_rcv_refused: u64,
}

/// The playout, and where it goes.
struct Screen {
    playout: Playout,
    output: Output,
    frames: Journal,
    meter: Meter,
    counts: Counts,
}

impl Screen {
    fn new(args: &RecvArgs, latency: Duration, output: Output) -> Result<Self, Failure> {
        Ok(Self {
            playout: Playout::new(PlayoutConfig::new(latency)),
            output,
            frames: Journal::new(args.frames.as_deref(), "rtp_timestamp,kind,fate,completed,playout,packets,bytes")?,
            meter: Meter::new(&args.meter)?,
            counts: Counts::default(),
        })
    }

    /// When something is to be done at the latest.
    fn due(&self) -> Instant {
        let tick = clock::now() + TICK;
        self.playout.poll_timeout().map_or(tick, |due| due.min(tick))
    }

    fn take(&mut self, at: Instant, packet: &[u8]) -> Result<(), Failure> {
        // What is no RTP of this stream is counted, and not ours to mend.
        let _ = self.playout.handle_packet(at, packet);
        self.show()
    }

    fn pass_time(&mut self) -> Result<(), Failure> {
        self.playout.handle_timeout(clock::now());
        self.show()
    }

    fn show(&mut self) -> Result<(), Failure> {
        while let Some(frame) = self.playout.poll_frame() {
            self.output.write(&frame)?;
        }
        while let Some(report) = self.playout.poll_report() {
            let kind = report.kind.map(|kind| format!("{kind:?}")).unwrap_or_default();
            let counts = &mut self.counts;
            match report.fate {
                FrameFate::Decodable => {
                    counts.frames_decodable += 1;
                    let intra = matches!(report.kind, Some(FrameKind::Idr | FrameKind::I));
                    counts.i_frames_decodable += u64::from(intra);
                }
                FrameFate::Incomplete => counts.frames_incomplete += 1,
                FrameFate::Late => counts.frames_late += 1,
                FrameFate::ReferenceMissing => counts.frames_reference_missing += 1,
                FrameFate::Unreadable => counts.frames_unreadable += 1,
            }
            self.frames.row(|unix| {
                let completed = report.completed_at.map(|at| unix(at).to_string()).unwrap_or_default();
                let (timestamp, fate, playout) = (report.rtp_timestamp, report.fate, unix(report.playout_at));
                format!("{timestamp},{kind},{fate:?},{completed},{playout},{},{}", report.packets, report.bytes)
            })?;
        }
        Ok(())
    }

    fn count_packets(&mut self) {
        let stats = self.playout.stats();
        self.counts.pkt_rcv_loss_total = stats.lost;
        self.counts.pkt_rcv_belated = stats.late;
        self.counts.pkt_rcv_duplicate = stats.duplicate;
        self.counts.pkt_rcv_refused = stats.refused;
    }

    fn report(&mut self, stream: &Fields) -> Result<(), Failure> {
        self.count_packets();
        let record = record(&[stream, &self.counts, &self.output.stats()]);
        self.meter.write(&record, &line(&record))
    }

    fn finish(mut self, stream: &Fields) -> Result<(), Failure> {
        self.playout.finish();
        self.show()?;
        let written = self.output.finish();
        self.count_packets();
        let record = record(&[stream, &self.counts, &self.output.stats()]);
        self.meter.finish(&record, &line(&record))?;
        self.frames.finish()?;
        written
    }
}

fn line(record: &Fields) -> String {
    let number = |name: &str| record.get(name).and_then(Value::as_f64).unwrap_or(0.0);
    format!(
        "{:6.1} s  {:7.0} kbit/s  {:7} packets  frames in time {} (I {})  incomplete {}  late {}  undecodable {}",
        number("msTimeStamp") / 1e3,
        number("mbpsRecvRate") * 1e3,
        number("pktRecvTotal"),
        number("framesDecodable"),
        number("iFramesDecodable"),
        number("framesIncomplete"),
        number("framesLate"),
        number("framesReferenceMissing"),
    )
}
