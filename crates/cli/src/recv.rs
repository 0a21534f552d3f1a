//! `timeous recv`: receives a stream and writes its timely, decodable frames to a file, pipe or player.

mod args;
mod callers;
mod counts;
mod late;
mod playouts;
mod screen;
mod serve;
mod told;
mod tracks;

use timeous::core::Duration;
use timeous::{Intent, Listener, PlayoutName, Receiver, Role, Sender, Uri, clock};

pub(crate) use self::args::RecvArgs;
pub(crate) use self::counts::FrameCounts;
use self::screen::Screen;
use self::serve::{End, WAIT, limit_of_caller, serve};
pub(crate) use self::tracks::ReceivedTrack;
use crate::caller::Caller;
use crate::failure::Failure;
use crate::files::check_distinct;
use crate::interrupt::Interrupt;
use crate::meter::{Meter, record};
use crate::notice::tell;
use crate::output::Output;
use crate::place::{Peer, Place};
use crate::plain::PlainReceiver;
use crate::security::tell_security;

/// Latency without the Timeous protocol, unless given.
const PLAIN_LATENCY: Duration = Duration::from_millis(300);

/// Runs the command.
pub(crate) fn run(args: &RecvArgs) -> Result<(), Failure> {
    let place = Place::parse(&args.sink)?;
    check_distinct(&[
        ("SINK", place.path()),
        ("--sdp", args.sink_args.sdp_file()),
        ("--frames", args.frames.as_deref()),
        ("--stats", args.meter.file()),
    ])?;
    let interrupt = || Interrupt::new().map_err(|error| Failure::Environment(error.to_string()));
    match Peer::parse(&args.uri)? {
        Peer::Timeous(mut uri) => {
            for (is_given, name) in [(args.latency.is_some(), "--latency"), (args.pt.is_some(), "--pt")] {
                if is_given {
                    return Err(Failure::Usage(format!(
                        "{name} is for udp://; with timeous:// the latency is a key of the URI, and \
                        the sender tells the payload type"
                    )));
                }
            }
            tell_security(&uri);
            uri.options.security.callers = Some(Intent::Publish);
            let args = &RecvArgs {
                immediate: args.immediate || uri.options.playout == PlayoutName::Immediate,
                ..args.clone()
            };
            if callers::are_several(&place) && uri.options.reconnects() {
                return callers::receive(args, &uri, &place, &interrupt()?);
            }
            let output = Output::open(&place, &args.sink_args)?;
            let screen = Screen::new(args, uri.options.latency, output)?;
            let meter = Meter::new(&args.meter)?;
            // Before the message that it listens: who reads it may interrupt.
            let interrupt = interrupt()?;
            let source = StreamSource::open(&uri)?;
            SequentialReceiver { source, screen, meter, interrupt }.run()
        }
        Peer::Player(..) => Err(Failure::Usage(format!(
            "'{}': a byte stream without records is for players, which read it themselves: receive by timeous://",
            args.uri
        ))),
        Peer::Udp(local) => {
            let output = Output::open(&place, &args.sink_args)?;
            let interrupt = interrupt()?;
            let mut receiver = PlainReceiver::new(local)?;
            let screen = Screen::new(args, args.latency.unwrap_or(PLAIN_LATENCY), output)?;
            receive_plainly(&mut receiver, screen, Meter::new(&args.meter)?, &interrupt)
        }
    }
}

/// Source of streams, one after another.
enum StreamSource {
    /// Incoming calls; the flag tells whether more follow after the first.
    Listen(Box<Listener>, bool),
    /// Outgoing call.
    Call(Caller),
}

impl StreamSource {
    fn open(uri: &Uri) -> Result<Self, Failure> {
        match &uri.role {
            Role::Caller { .. } => Ok(Self::Call(Caller::begin(uri, Intent::Play)?)),
            Role::Listener { .. } => {
                let listener = Listener::open(uri)?;
                // Further callers are told that the receiver is busy.
                listener.set_room(Some(1));
                tell(format_args!("listening at {}", listener.local_addr()));
                Ok(Self::Listen(Box::new(listener), uri.options.reconnects()))
            }
        }
    }

    /// Returns the next stream, if one comes within `limit`.
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

    /// Returns whether anyone may call.
    fn is_called(&self) -> bool {
        matches!(self, Self::Listen(..))
    }

    /// Handles the end of a stream, and takes another caller; returns whether another stream may follow.
    fn again(&mut self) -> bool {
        match self {
            Self::Listen(listener, several) => {
                listener.set_room(Some(1));
                *several
            }
            Self::Call(calling) => calling.again(),
        }
    }
}

/// Receiver that writes one stream after another into one sink.
struct SequentialReceiver {
    source: StreamSource,
    screen: Screen,
    meter: Meter,
    interrupt: Interrupt,
}

impl SequentialReceiver {
    fn run(mut self) -> Result<(), Failure> {
        let mut last = record(&[&timeous::Stats::default()]);
        // Whether a stream has ended whose counts are to be told.
        let mut has_ended = false;
        let ended = loop {
            if self.interrupt.is_set() {
                break Ok(());
            }
            // Frames of the last stream may still be played out.
            if let Err(failure) = self.screen.pass_time().or_else(|failure| self.go_on_after(failure)) {
                break Err(failure);
            }
            if has_ended && !self.screen.holds_frames() {
                has_ended = false;
                self.tell_end();
            }
            let limit = self.screen.due().saturating_since(clock::now()).min(WAIT);
            let pair = match self.source.wait(limit) {
                Ok(Some(pair)) => pair,
                Ok(None) => {
                    if self.meter.is_due() {
                        let (fields, _) = self.screen.record(&last);
                        self.meter.write(&fields, "waiting for a sender");
                    }
                    continue;
                }
                Err(failure) => break Err(failure),
            };
            if std::mem::take(&mut has_ended) {
                self.tell_end();
            }
            let limit = limit_of_caller(&pair.0).filter(|_| self.source.is_called());
            let ended = serve(pair, limit, &mut self.screen, &mut self.meter, &self.interrupt, &mut last);
            match ended {
                Err(End::Sink(failure)) => {
                    if let Err(failure) = self.go_on_after(failure) {
                        break Err(failure);
                    }
                }
                _ if self.interrupt.is_set() => break Ok(()),
                _ if !self.screen.has_begun() && self.source.is_called() => {
                    let nothing = "the caller has sent nothing that could be received";
                    // A stranger is not the one stream of reconnect=off.
                    if !self.source.again() && limit.is_none() {
                        break Err(Failure::Peer(match ended {
                            Err(End::Stream(failure)) => format!("{nothing}: {failure}"),
                            _ => format!("{nothing}, and ended the stream: was there anything at its source?"),
                        }));
                    }
                    tell(format_args!("{nothing}; waiting for the next"));
                }
                Err(End::Stranger) => {}
                Ok(()) if !self.source.again() => break self.screen.drain(&self.interrupt),
                Err(End::Stream(failure)) if !self.source.again() => break Err(failure),
                Ok(()) => has_ended = true,
                Err(End::Stream(failure)) => tell(format_args!("{failure}; waiting for the sender to come back")),
            }
        };
        let finished = self.screen.finish(&last, &mut self.meter);
        tell(format_args!("the end: {}", self.screen.summary()));
        self.screen.lines().into_iter().for_each(|line| tell(format_args!("{line}")));
        ended.and(finished)
    }

    /// Tells the counts of an ended stream.
    fn tell_end(&mut self) {
        self.screen.settle();
        tell(format_args!("the stream has ended: {}; waiting for the next", self.screen.summary()));
    }

    /// Goes on after a stream that the sink does not take, if others may call.
    fn go_on_after(&mut self, failure: Failure) -> Result<(), Failure> {
        match failure {
            Failure::Peer(said) if self.source.is_called() && self.source.again() => {
                tell(format_args!("{said}; waiting for the next"));
                Ok(())
            }
            failure => Err(failure),
        }
    }
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
            meter.write(&fields, &line);
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
