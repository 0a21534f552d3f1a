//! `timeous recv`: what came in time and can be decoded, as H.264 for a file, a pipe or a player.

mod callers;
mod screen;

use clap::Args;
use timeous::core::units::parse_duration;
use timeous::core::{Duration, Priority};
use timeous::{Arrival, Hints, Listener, PlayoutName, Receiver, Role, Sender, Uri, clock};

use self::screen::Screen;
use crate::calling::Calling;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::meter::{Meter, MeterArgs, record};
use crate::notice::tell;
use crate::output::{Output, SinkArgs};
use crate::place::{Peer, Place};
use crate::plain::PlainReceiver;

/// Receives live H.264 video
///
/// URI is timeous://:port?latency=…, or udp://:port for RTP without congestion control. SINK is a file (raw H.264, or
/// MP4 if its name ends with .mp4), '-' for standard output, or udp://host:port for RTP to a player. Only frames that
/// are whole, decodable and in time are written, at a constant delay after their capture. It goes on until it is
/// interrupted, over breaks of the path and restarts of the sender, one caller after another (with reconnect=off in
/// the URI, for one stream); with %n in the name of the file, any number of callers at once, each with a file of its own.
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
    /// Give frames out as soon as they can be decoded: playout=immediate in the URI says the same
    #[arg(long)]
    immediate: bool,
    /// With udp://: the RTP payload type, where it is not the first dynamic one
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=127))]
    pt: Option<u8>,
    /// Write a line for each frame to this CSV file: its times, and what became of it
    #[arg(long, value_name = "FILE")]
    frames: Option<String>,
    #[command(flatten)]
    sink_args: SinkArgs,
    #[command(flatten)]
    meter: MeterArgs,
}

/// How long callers that have nothing to say are waited for before they make room for another.
const WAIT: Duration = Duration::from_millis(200);

/// Runs the command.
pub(crate) fn run(args: &RecvArgs) -> Result<(), Failure> {
    let place = Place::parse(&args.sink)?;
    let interrupt = || Interrupt::new().map_err(|error| Failure::Environment(error.to_string()));
    match Peer::parse(&args.uri)? {
        Peer::Timeous(uri) => {
            let args = &RecvArgs {
                immediate: args.immediate || uri.options.playout == PlayoutName::Immediate,
                ..args.clone()
            };
            if callers::are_several(&place) && uri.options.reconnects() {
                return callers::receive(args, &uri, &place, &interrupt()?);
            }
            let output = Output::open(&place, &args.sink_args)?;
            let screen = Screen::new(args, uri.options.latency, output)?;
            let line = Line::open(&uri)?;
            OneByOne { line, screen, meter: Meter::new(&args.meter)?, interrupt: interrupt()? }.run()
        }
        Peer::Udp(local) => {
            let output = Output::open(&place, &args.sink_args)?;
            let mut receiver = PlainReceiver::new(local)?;
            let screen = Screen::new(args, args.latency, output)?;
            receive_plainly(&mut receiver, screen, Meter::new(&args.meter)?, &interrupt()?)
        }
    }
}

/// Where streams come from, one after another.
enum Line {
    /// From who calls; once, or again and again.
    Listen(Listener, bool),
    /// From who is called.
    Call(Calling),
}

impl Line {
    fn open(uri: &Uri) -> Result<Self, Failure> {
        match &uri.role {
            Role::Caller { .. } => Ok(Self::Call(Calling::begin(uri)?)),
            Role::Listener { .. } => {
                let listener = Listener::open(uri)?;
                // Whoever else calls is told that another one is being served.
                listener.set_room(Some(1));
                tell(format_args!("listening at {}", listener.local_addr()));
                Ok(Self::Listen(listener, uri.options.reconnects()))
            }
        }
    }

    /// The next stream, if one comes within a moment.
    fn wait(&mut self, limit: Duration) -> Result<Option<(Sender, Receiver)>, Failure> {
        let deadline = clock::now() + limit;
        match self {
            Self::Listen(listener, _) => Ok(listener.accept(Some(deadline))?.map(|incoming| incoming.accept())),
            Self::Call(calling) => {
                calling.wait(deadline);
                calling.poll()
            }
        }
    }

    /// The stream has ended: whether another one may come.
    fn again(&mut self) -> bool {
        match self {
            Self::Listen(_, false) => false,
            Self::Listen(listener, true) => {
                listener.set_room(Some(1));
                true
            }
            Self::Call(calling) => calling.again(),
        }
    }
}

/// One stream after another, into one sink.
struct OneByOne {
    line: Line,
    screen: Screen,
    meter: Meter,
    interrupt: Interrupt,
}

impl OneByOne {
    fn run(mut self) -> Result<(), Failure> {
        let mut last = record(&[&timeous::Stats::default()]);
        let ended = loop {
            if self.interrupt.is_set() {
                break Ok(());
            }
            if let Err(failure) = self.screen.pass_time() {
                break Err(failure);
            }
            let limit = self.screen.due().saturating_since(clock::now()).min(WAIT);
            let (sender, receiver) = match self.line.wait(limit) {
                Ok(Some(pair)) => pair,
                Ok(None) => {
                    if self.meter.is_due() {
                        let (fields, _) = self.screen.record(&last);
                        self.meter.write(&fields, "waiting for a sender")?;
                    }
                    continue;
                }
                Err(failure) => break Err(failure),
            };
            let ended = serve(sender, receiver, &mut self.screen, &mut self.meter, &self.interrupt, &mut last);
            match ended {
                Err(End::Sink(failure)) => break Err(failure),
                _ if self.interrupt.is_set() => break Ok(()),
                Ok(()) if !self.line.again() => break Ok(()),
                Err(End::Stream(failure)) if !self.line.again() => break Err(failure),
                Ok(()) => tell(format_args!("the stream has ended: {}; waiting for the next", self.screen.summary())),
                Err(End::Stream(failure)) => tell(format_args!("{failure}; waiting for the sender to come back")),
            }
        };
        let finished = self.screen.finish(&last, &mut self.meter);
        ended.and(finished)
    }
}

/// Why a stream is over.
pub(super) enum End {
    /// The stream's own end.
    Stream(Failure),
    /// What it goes to cannot take it any more.
    Sink(Failure),
}

/// Serves one stream until its end.
fn serve(
    mut sender: Sender,
    mut receiver: Receiver,
    screen: &mut Screen,
    meter: &mut Meter,
    interrupt: &Interrupt,
    last: &mut crate::meter::Fields,
) -> Result<(), End> {
    let peer = receiver.peer().map_or_else(|| "the sender".to_owned(), |peer| peer.to_string());
    tell(format_args!("connected: {peer}"));
    screen.begin_stream();
    let mut closing = false;
    let ended = loop {
        if interrupt.is_set() && !closing {
            closing = true;
            receiver.close();
        }
        let shown = match receiver.receive(Some(screen.due())) {
            Ok(Arrival::Data(received)) => screen.take(received.at, &received.bytes),
            Ok(Arrival::Nothing) => screen.pass_time(),
            Ok(Arrival::End) => break Ok(()),
            // Whether the sender has heard of it is no matter to one who has had enough.
            Err(_) if closing => break Ok(()),
            Err(error) => break Err(End::Stream(Failure::from(error))),
        };
        if let Err(failure) = shown {
            receiver.close();
            break Err(End::Sink(failure));
        }
        for message in screen.control() {
            let hints = Hints { priority: Priority::HIGHEST, ..Hints::default() };
            // A full ring, or an end that is told next.
            let _ = sender.send(&message.write(), hints);
        }
        while sender.poll_delivery().is_some() {}
        if meter.is_due() {
            let mut stream = record(&[&receiver.stats()]);
            stream.insert("peer".to_owned(), peer.clone().into());
            let (fields, line) = screen.record(&stream);
            meter.write(&fields, &line).map_err(End::Sink)?;
        }
    };
    *last = record(&[&receiver.stats()]);
    last.insert("peer".to_owned(), peer.into());
    ended
}

fn receive_plainly(
    receiver: &mut PlainReceiver,
    mut screen: Screen,
    mut meter: Meter,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    screen.begin_stream();
    let mut look = |screen: &mut Screen, meter: &mut Meter| {
        match receiver.receive(screen.due())? {
            Some((packet, at)) => screen.take(at, packet)?,
            None => screen.pass_time()?,
        }
        if meter.is_due() {
            let (fields, line) = screen.record(&record(&[receiver.stats()]));
            meter.write(&fields, &line)?;
        }
        Ok(!receiver.has_ended())
    };
    let mut ended = Ok(true);
    while matches!(ended, Ok(true)) && !interrupt.is_set() {
        ended = look(&mut screen, &mut meter);
    }
    let finished = screen.finish(&record(&[receiver.stats()]), &mut meter);
    ended.map(|_| ()).and(finished)
}
