//! Media input: reads frames from a SOURCE on a thread of its own, with their capture times.

mod captured;
mod container;
mod left_out;
mod media;
mod passthrough;
mod pipe;
mod probe;
mod rtp;
mod silence;
mod ts;

use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use timeous_media::{Ending, FrameRate, MediaDescription, Session, SessionDescription};

use self::captured::Frames;
pub(crate) use self::captured::{CapturedFrame, Input, Timing};
pub(crate) use self::media::{Format, MediaPart};
pub(crate) use self::rtp::{ClockChangeMessage, RtpSource};
use crate::failure::Failure;
use crate::place::Place;

/// Frames that may wait in the queue; a file is read no further ahead.
const WAITING: usize = 64;

/// Timing of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Pipes, sockets and RTP are live, files are paced.
    ByKind,
    /// Frames are captured on arrival.
    Live,
    /// Frames are paced by the frame rate of the stream.
    Paced,
}

/// Source being read.
pub(crate) struct OpenedSource {
    pub(crate) input: Receiver<Input>,
    pub(crate) is_live: bool,
    /// Number of parallel encodings.
    pub(crate) encodings: usize,
}

/// Starts reading a source.
pub(crate) fn open(
    place: &Place,
    rate: Option<FrameRate>,
    pace: Pace,
    rtp: RtpSource,
) -> Result<OpenedSource, Failure> {
    if matches!(place, Place::Standard | Place::File(_)) {
        no_payload_type(&rtp)?;
    }
    let (to, input) = sync_channel(WAITING);
    let frames = Frames::new(to, 0);
    let is_live = match place {
        Place::Standard => read(standard()?, rate, pace, frames),
        Place::File(path) => {
            let file = File::open(path).map_err(|error| Failure::file(path, &error))?;
            if file.metadata().is_ok_and(|about| about.is_dir()) {
                return Err(Failure::Environment(format!(
                    "{path} is a directory: name a file of H.264, MPEG-TS, MP4 or Matroska in it"
                )));
            }
            read(file, rate, pace, frames.named(path))
        }
        Place::Sdp(path) => {
            let text = std::fs::read_to_string(path).map_err(|error| no_text(path, &error))?;
            let session = Session::parse(&text).map_err(|error| Failure::Input(format!("{path}: {error}")))?;
            let is_wanted = |stream: &MediaDescription| {
                rtp.payload_type.is_none_or(|wanted| stream.payload_types.contains(&wanted))
            };
            let streams: Vec<_> = session.streams.into_iter().filter(is_wanted).collect();
            if let [stream] = &streams[..]
                && stream.is_transport_stream()
            {
                let local = listening_at(stream.address, stream.port);
                return open(&Place::Udp(local), rate, pace, RtpSource { is_ts: true, ..rtp });
            }
            let session = match (&streams[..], SessionDescription::parse(&text)) {
                ([stream], Ok(session)) if stream.port == session.port => session,
                ([], _) => return Err(Failure::Input(format!("{path}: no stream has the payload type of --pt"))),
                _ => {
                    no_rate(rate, pace)?;
                    spawn_passthrough(streams, rtp.payload_type, frames)?;
                    return Ok(OpenedSource { input, is_live: true, encodings: 1 });
                }
            };
            let rtp = RtpSource {
                payload_type: rtp.payload_type.or(Some(session.payload_type)),
                parameter_sets: session.parameter_sets.clone(),
                is_ts: false,
            };
            return open(&Place::Udp(listening_at(session.address, session.port)), rate, pace, rtp);
        }
        Place::Udp(local) => {
            no_rate(rate, pace)?;
            let socket = bind(*local)?;
            join(&socket, *local)?;
            spawn(frames, move |frames| rtp::read_rtp(&socket, &rtp, frames));
            true
        }
    };
    Ok(OpenedSource { input, is_live, encodings: 1 })
}

/// Failure to read a session description; a file that is no text is none.
fn no_text(path: &str, error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::InvalidData => Failure::Input(format!(
            "{path} is no SDP: it is not text, which begins with v=0. If it is a file of video, give it a name that does not end with .sdp"
        )),
        _ => Failure::file(path, error),
    }
}

/// Refuses options for RTP.
fn no_payload_type(rtp: &RtpSource) -> Result<(), Failure> {
    match rtp.payload_type {
        Some(number) => Err(Failure::Usage(format!(
            "--pt {number}: it is for RTP (udp://:port, or an SDP file), and a file or pipe has no payload types; leave it out"
        ))),
        None => Ok(()),
    }
}

/// Standard input as a file, which it may be.
fn standard() -> Result<File, Failure> {
    let input = io::stdin().as_fd().try_clone_to_owned();
    input.map(File::from).map_err(|error| Failure::file("standard input", &error))
}

fn read(from: File, rate: Option<FrameRate>, pace: Pace, frames: Frames) -> bool {
    let is_live = match pace {
        Pace::ByKind => pipe::is_live(&from),
        Pace::Live => true,
        Pace::Paced => false,
    };
    if is_live {
        spawn(frames, move |frames| probe::read_live(from, rate, frames));
    } else {
        spawn(frames, move |frames| probe::read_file(from, rate, frames));
    }
    is_live
}

/// Starts reading the output of an encoder, which may have several parallel encodings.
pub(crate) fn read_from(encodings: Vec<File>, rate: Option<FrameRate>) -> OpenedSource {
    let (to, input) = sync_channel(WAITING);
    let count = encodings.len();
    for (output, encoding) in encodings.into_iter().zip(0..) {
        let frames = Frames::new(to.clone(), encoding);
        spawn(frames, move |frames| pipe::read_live(output, &[], rate, frames, count > 1));
    }
    OpenedSource { input, is_live: true, encodings: count }
}

/// Binds a UDP socket for RTP.
pub(crate) fn bind(local: SocketAddr) -> Result<UdpSocket, Failure> {
    UdpSocket::bind(local).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => Failure::Environment(format!(
            "cannot use {local}: another program has that port; choose another one, or stop that program"
        )),
        _ => Failure::Environment(format!("cannot open a UDP socket on {local}: {error}")),
    })
}

/// Refuses options for files.
fn no_rate(rate: Option<FrameRate>, pace: Pace) -> Result<(), Failure> {
    if pace == Pace::Paced {
        return Err(Failure::Usage("--file: RTP is live, and has times of its own".to_owned()));
    }
    if rate.is_some() {
        return Err(Failure::Usage("--fps: RTP has times of its own; leave it out".to_owned()));
    }
    Ok(())
}

/// Starts reading RTP streams, each at the port of its description.
fn spawn_passthrough(streams: Vec<MediaDescription>, payload_type: Option<u8>, frames: Frames) -> Result<(), Failure> {
    let places: Vec<_> = streams.iter().map(|stream| listening_at(stream.address, stream.port)).collect();
    if let Some(shared) = shared(&places) {
        return Err(Failure::Input(format!(
            "several streams of the SDP share {shared} (BUNDLE): give each a port of its own at the source, or choose one by its payload \
             type with --pt"
        )));
    }
    let open = |local: &SocketAddr| bind(*local).and_then(|socket| join(&socket, *local).map(|()| socket));
    let sockets = places.iter().map(open).collect::<Result<_, _>>()?;
    // Behind all streams, which may have these ports. Without reports, the clocks of the streams are known by arrivals.
    let open_next = |local: &SocketAddr| {
        let next = SocketAddr::new(local.ip(), local.port().saturating_add(1));
        UdpSocket::bind(next).ok().filter(|socket| join(socket, next).is_ok())
    };
    let control = places.iter().map(open_next).collect();
    passthrough::tell_streams(&streams);
    let source = passthrough::PassthroughSource { sockets, control, streams, payload_type };
    spawn(frames, move |frames| passthrough::read_passthrough(&source, Vec::new(), frames));
    Ok(())
}

/// Address that several streams have.
fn shared(places: &[SocketAddr]) -> Option<SocketAddr> {
    places.iter().enumerate().find(|(n, place)| places[..*n].contains(place)).map(|(_, place)| *place)
}

/// Local address to receive a stream at that is sent to `address`: that, if it is a multicast group, or any address of its family.
fn listening_at(address: Option<IpAddr>, port: u16) -> SocketAddr {
    let at = match address {
        Some(group) if group.is_multicast() => group,
        Some(IpAddr::V6(_)) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        _ => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    };
    SocketAddr::new(at, port)
}

/// Joins the group if the address is multicast.
fn join(socket: &UdpSocket, local: SocketAddr) -> Result<(), Failure> {
    let joined = match local {
        SocketAddr::V4(v4) if v4.ip().is_multicast() => {
            socket.join_multicast_v4(v4.ip(), &std::net::Ipv4Addr::UNSPECIFIED)
        }
        SocketAddr::V6(v6) if v6.ip().is_multicast() => socket.join_multicast_v6(v6.ip(), v6.scope_id()),
        _ => Ok(()),
    };
    joined.map_err(|error| Failure::Environment(format!("cannot join the multicast group {local}: {error}")))
}

fn spawn(frames: Frames, read: impl FnOnce(&Frames) -> Result<Ending, Failure> + Send + 'static) {
    thread::spawn(move || {
        let last = match read(&frames) {
            Ok(ending) => Input::End(ending),
            Err(failure) => Input::Broken(frames.name_in(failure)),
        };
        frames.end(last);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream to `::1` was waited for at `0.0.0.0`, and none of it came.
    #[test]
    fn a_stream_is_received_at_an_address_of_its_family() {
        let at = |address: &str| listening_at(Some(address.parse().unwrap()), 5_004).to_string();
        assert_eq!([at("127.0.0.1"), at("::1"), at("2001:db8::7")], ["0.0.0.0:5004", "[::]:5004", "[::]:5004"]);
        assert_eq!([at("239.1.2.3"), at("ff15::1")], ["239.1.2.3:5004", "[ff15::1]:5004"]);
        assert_eq!(listening_at(None, 5_004).to_string(), "0.0.0.0:5004");
    }
}
