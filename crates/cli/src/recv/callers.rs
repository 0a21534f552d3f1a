//! Parallel callers (`%n` in the sink's name): one recording for each, continued when its caller reconnects.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use timeous::core::Duration;
use timeous::{Arrival, Incoming, Listener, Received, Receiver, Role, Uri, clock};
use timeous_media::control::is_control;

use super::args::RecvArgs;
use super::screen::Screen;
use super::serve::{End, WAIT, limit_of_caller, serve};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::meter::{Fields, Meter};
use crate::notice::tell;
use crate::output::Output;
use crate::place::Place;

/// Most parallel callers; each has a thread and up to 16 MB of buffered packets.
const MOST_CALLERS: usize = 256;
/// Most recordings kept open for lost callers; beyond it, the oldest are completed.
const MOST_PARKED: usize = 64;

/// Whether the sink's name is for several streams (`%n`).
pub(super) fn are_several(place: &Place) -> bool {
    matches!(place, Place::File(path) if path.contains("%n"))
}

/// Serves callers until interrupted, each on its own thread.
pub(super) fn receive(args: &RecvArgs, uri: &Uri, place: &Place, interrupt: &Interrupt) -> Result<(), Failure> {
    if !matches!(uri.role, Role::Listener { .. }) {
        return Err(Failure::Usage("%n in the sink's name needs a URI that listens: timeous://:port".to_owned()));
    }
    if args.frames.is_some() {
        return Err(Failure::Usage("--frames is of one stream: leave it out where the sink has a %n".to_owned()));
    }
    // Check the sink before the first call.
    drop(Output::open(place, &args.sink_args)?);
    let mut listener = Listener::open(uri)?;
    tell(format_args!("listening at {}, for any number of callers", listener.local_addr()));
    let shared = Arc::new(Shared {
        args: args.clone(),
        latency: uri.options.latency,
        place: place.clone(),
        meter: Meter::new(&args.meter)?,
        parked: Mutex::default(),
        failed: Mutex::default(),
        interrupt: interrupt.clone(),
    });
    let mut serving: Vec<JoinHandle<()>> = Vec::new();
    while !interrupt.is_set() {
        serving.retain(|thread| !thread.is_finished());
        if let Some(failure) = locked(&shared.failed).take() {
            return Err(failure);
        }
        listener.set_room(Some(MOST_CALLERS.saturating_sub(serving.len())));
        let Some(incoming) = listener.accept(Some(clock::now() + WAIT))? else { continue };
        let shared = shared.clone();
        serving.push(thread::spawn(move || {
            let peer = incoming.peer();
            match shared.serve(incoming) {
                Ok(()) => {}
                // A caller with nothing to record, or nothing that the sink takes, is no reason to end the others' recordings.
                Err(Failure::Peer(said)) => tell(format_args!("{peer}: {said}")),
                Err(failure) => *locked(&shared.failed) = Some(failure),
            }
        }));
    }
    drop(listener);
    for thread in serving {
        if let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
    }
    let parked = std::mem::take(&mut *locked(&shared.parked));
    let finish = |(mut screen, last): (Screen, Fields)| screen.finish(&last, &mut shared.meter.another());
    let finished = parked.into_values().map(finish).fold(Ok(()), Result::and);
    finished.and(shared.meter.failure())
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// State shared by the threads of all callers.
struct Shared {
    args: RecvArgs,
    latency: timeous::core::Duration,
    place: Place,
    meter: Meter,
    /// Recordings of lost callers, by SSRC, which a sender keeps when it reconnects.
    parked: Mutex<BTreeMap<u32, (Screen, Fields)>>,
    /// Failure that ends all streams.
    failed: Mutex<Option<Failure>>,
    interrupt: Interrupt,
}

impl Shared {
    fn serve(&self, incoming: Incoming) -> Result<(), Failure> {
        let peer = incoming.peer();
        let (sender, mut receiver) = incoming.accept();
        let Some((ssrc, first)) = first_packets(&mut receiver, limit_of_caller(&sender), &self.interrupt) else {
            tell(format_args!("{peer} has sent nothing that could be recorded"));
            return Ok(());
        };
        let parked = locked(&self.parked).remove(&ssrc);
        let (mut screen, mut last) = match parked {
            Some(parked) => parked,
            None => {
                let output = Output::open(&self.place, &self.args.sink_args)?;
                (Screen::new(&self.args, self.latency, output)?, Fields::default())
            }
        };
        let mut meter = self.meter.another();
        for packet in first {
            screen.take(packet.at, &packet.bytes)?;
        }
        let ended = serve((sender, receiver), None, &mut screen, &mut meter, &self.interrupt, &mut last);
        match ended {
            // Frames from before the failure are recorded. A full disk affects all callers.
            Err(End::Sink(failure)) => match screen.finish(&last, &mut meter) {
                Ok(()) | Err(Failure::Peer(_)) => Err(failure),
                Err(worse) => Err(worse),
            },
            Err(End::Stream(failure)) if !self.interrupt.is_set() => {
                tell(format_args!("{peer}: {failure}; its recording goes on if it comes back"));
                self.park(ssrc, screen, last)
            }
            _ => {
                let finished = screen.finish(&last, &mut meter);
                tell(format_args!("{peer}: the stream has ended: {}", screen.summary()));
                finished
            }
        }
    }

    fn park(&self, ssrc: u32, screen: Screen, last: Fields) -> Result<(), Failure> {
        let mut parked = locked(&self.parked);
        parked.insert(ssrc, (screen, last));
        if parked.len() <= MOST_PARKED {
            return Ok(());
        }
        let Some((_, (mut screen, last))) = parked.pop_first() else { return Ok(()) };
        drop(parked);
        screen.finish(&last, &mut self.meter.another())
    }
}

/// Receives packets up to the first RTP packet, and its SSRC; `None` if the stream ends before, or does not come within the limit.
fn first_packets(
    receiver: &mut Receiver,
    limit: Option<Duration>,
    interrupt: &Interrupt,
) -> Option<(u32, Vec<Received>)> {
    /// Most packets; above the number of control packets before it.
    const MOST: usize = 64;
    let mut packets = Vec::new();
    let until = limit.map(|limit| clock::now() + limit);
    while !interrupt.is_set() && until.is_none_or(|until| clock::now() <= until) {
        match receiver.receive(Some(clock::now() + WAIT)) {
            Ok(Arrival::Data(packet)) => {
                let ssrc = packet.bytes.get(8..12).and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes);
                let is_media = packet.bytes.first().is_some_and(|first| first >> 6 == 2) && !is_control(&packet.bytes);
                if packets.len() < MOST {
                    packets.push(packet);
                }
                if let Some(ssrc) = ssrc.filter(|_| is_media) {
                    return Some((ssrc, packets));
                }
            }
            Ok(Arrival::Nothing) => {}
            Ok(Arrival::End) | Err(_) => return None,
        }
    }
    None
}
