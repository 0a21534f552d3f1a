//! Frames from a SOURCE, read on a thread of their own, each with the moment at which it could be had.

use std::fs::File;
use std::io::{self, Read};
use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use timeous::clock;
use timeous::core::{Duration, Instant};
use timeous_media::{Ending, Frame, FrameRate, FrameReader, Playout, PlayoutConfig, PlayoutFrame, RTP_CLOCK_HZ};

use crate::failure::Failure;
use crate::place::Place;

/// What comes from a source.
pub(crate) enum Input {
    /// A frame, when it was there to be sent, and of which of several encodings it is.
    Frame(Box<Frame>, Instant, usize),
    /// The end, with what there is to say about it.
    End(Ending),
    /// It cannot be read any further.
    Broken(Failure),
}

/// How many frames may wait: a source that is ahead waits for the stream, not in memory.
const WAITING: usize = 64;
const CHUNK: usize = 64 * 1024;
/// How long RTP packets that come out of order are waited for.
const REORDERING: Duration = Duration::from_millis(60);
/// How long an RTP source may be silent before it is taken to have ended.
const RTP_SILENCE: Duration = Duration::from_secs(5);
/// An access unit delimiter: what follows is another frame (H.264 §7.3.2.4).
const DELIMITER: [u8; 6] = [0, 0, 0, 1, 0x09, 0xf0];

/// Starts to read.
pub(crate) fn open(place: &Place, rate: Option<FrameRate>) -> Result<Receiver<Input>, Failure> {
    let (to, input) = sync_channel(WAITING);
    let frames = Frames { to, encoding: 0 };
    match place {
        Place::Standard => spawn(frames, move |frames| read_all(io::stdin().lock(), rate, frames)),
        Place::File(path) => {
            let file = File::open(path).map_err(|error| Failure::file(path, &error))?;
            spawn(frames, move |frames| read_all(file, rate, frames));
        }
        Place::Udp(local) => {
            let socket = bind(*local)?;
            spawn(frames, move |frames| read_rtp(&socket, frames));
        }
    }
    Ok(input)
}

/// Reads H.264 as it comes out of a program, which may make several encodings of the same pictures.
pub(crate) fn read_from(encodings: Vec<impl Read + Send + 'static>, rate: Option<FrameRate>) -> Receiver<Input> {
    let (to, input) = sync_channel(WAITING);
    for (output, encoding) in encodings.into_iter().zip(0..) {
        let frames = Frames { to: to.clone(), encoding };
        spawn(frames, move |frames| read_all(output, rate, frames));
    }
    input
}

/// Binds a socket for plain RTP.
pub(crate) fn bind(local: SocketAddr) -> Result<UdpSocket, Failure> {
    UdpSocket::bind(local).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => Failure::Environment(format!(
            "cannot use {local}: another program has that port; choose another one, or stop that program"
        )),
        _ => Failure::Environment(format!("cannot open a UDP socket on {local}: {error}")),
    })
}

/// A reader that has nobody to read for ends by itself.
struct Frames {
    to: SyncSender<Input>,
    encoding: usize,
}

impl Frames {
    /// `false` if nobody is there any more.
    fn give(&self, frame: Frame) -> bool {
        self.to.send(Input::Frame(Box::new(frame), clock::now(), self.encoding)).is_ok()
    }
}

fn spawn(frames: Frames, read: impl FnOnce(&Frames) -> Result<Ending, Failure> + Send + 'static) {
    thread::spawn(move || {
        let last = match read(&frames) {
            Ok(ending) => Input::End(ending),
            Err(failure) => Input::Broken(failure),
        };
        // Nobody is there any more to hear of the end: just as well.
        let _ = frames.to.send(last);
    });
}

fn read_all(mut from: impl Read, rate: Option<FrameRate>, frames: &Frames) -> Result<Ending, Failure> {
    let mut reader = FrameReader::new(rate);
    let mut chunk = vec![0; CHUNK];
    loop {
        let count = match from.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Failure::file("the source", &error)),
        };
        let pushed = reader.push(&chunk[..count]);
        give(&mut reader, frames);
        pushed?;
    }
    let ending = reader.finish()?;
    give(&mut reader, frames);
    Ok(ending)
}

fn give(reader: &mut FrameReader, frames: &Frames) {
    while let Some(frame) = reader.next_frame() {
        if !frames.give(frame) {
            return;
        }
    }
}

fn read_rtp(socket: &UdpSocket, frames: &Frames) -> Result<Ending, Failure> {
    let mut relabel = Relabel::default();
    let mut playout = Playout::new(PlayoutConfig::new(REORDERING));
    let mut datagram = vec![0; CHUNK];
    let mut heard: Option<Instant> = None;
    loop {
        let now = clock::now();
        if heard.is_some_and(|at| now.saturating_since(at) > RTP_SILENCE) {
            break;
        }
        let due = playout.poll_timeout().map_or(Duration::from_millis(200), |at| at.saturating_since(now));
        let wait = due.max(Duration::from_millis(1)).min(Duration::from_millis(200));
        socket.set_read_timeout(Some(wait.into())).map_err(|error| Failure::file("the source", &error))?;
        match socket.recv(&mut datagram) {
            Ok(len) => {
                heard = Some(clock::now());
                // What is no RTP of this stream is counted, and not ours to mend.
                let _ = playout.handle_packet(clock::now(), &datagram[..len]);
            }
            Err(_) => playout.handle_timeout(clock::now()),
        }
        while let Some(frame) = playout.poll_frame() {
            relabel.push(&frame, frames)?;
        }
    }
    playout.finish();
    while let Some(frame) = playout.poll_frame() {
        relabel.push(&frame, frames)?;
    }
    Ok(relabel.reader.finish()?)
}

/// Frames that came as RTP, with what late choice must know of them, on the clock that they came with.
struct Relabel {
    reader: FrameReader,
    first: Option<i64>,
}

impl Default for Relabel {
    fn default() -> Self {
        Self { reader: FrameReader::new(None), first: None }
    }
}

impl Relabel {
    fn push(&mut self, frame: &PlayoutFrame, frames: &Frames) -> Result<(), Failure> {
        let first = *self.first.get_or_insert(frame.ticks);
        let ticks = u64::try_from(frame.ticks - first).unwrap_or(0);
        self.reader.push(&frame.annexb)?;
        self.reader.push(&DELIMITER)?;
        while let Some(mut labelled) = self.reader.next_frame() {
            labelled.rtp_ticks = ticks;
            labelled.capture = Duration::from_nanos(ticks * 1_000_000_000 / u64::from(RTP_CLOCK_HZ));
            labelled.handover = labelled.capture;
            if !frames.give(labelled) {
                break;
            }
        }
        Ok(())
    }
}
