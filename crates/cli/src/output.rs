//! Frames to a SINK: a byte stream, an MP4 file, or RTP over plain UDP.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use timeous::core::{Duration, References};
use timeous_media::annexb::NalSplitter;
use timeous_media::mp4::Mp4Writer;
use timeous_media::{Frame, Packetizer, PacketizerConfig, PlayoutFrame};

use crate::failure::Failure;
use crate::input::bind;
use crate::place::Place;

/// Where received frames go.
pub(crate) enum Output {
    /// An Annex B byte stream.
    Bytes(Box<dyn Write>, String),
    /// An MP4 file, written fragment by fragment.
    Mp4(Box<Mp4Writer>, File, String),
    /// RTP packets.
    Rtp(Box<RtpOutput>),
}

/// RTP over plain UDP.
pub(crate) struct RtpOutput {
    socket: UdpSocket,
    to: SocketAddr,
    packetizer: Packetizer,
}

impl Output {
    /// Opens a sink, so that a mistake shows before anything has come.
    pub(crate) fn open(place: &Place) -> Result<Self, Failure> {
        match place {
            Place::Standard => Ok(Self::Bytes(Box::new(io::stdout().lock()), "standard output".to_owned())),
            Place::File(path) => {
                let file = File::create(path).map_err(|error| Failure::file(path, &error))?;
                if path.ends_with(".mp4") {
                    return Ok(Self::Mp4(Box::new(Mp4Writer::new()), file, path.clone()));
                }
                Ok(Self::Bytes(Box::new(BufWriter::new(file)), path.clone()))
            }
            Place::Udp(to) => {
                let any = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
                let socket = bind(SocketAddr::new(any, 0))?;
                let packetizer = Packetizer::new(PacketizerConfig::default())?;
                Ok(Self::Rtp(Box::new(RtpOutput { socket, to: *to, packetizer })))
            }
        }
    }

    /// Writes a frame.
    pub(crate) fn write(&mut self, frame: &PlayoutFrame) -> Result<(), Failure> {
        match self {
            Self::Bytes(out, name) => {
                let written = out.write_all(&frame.annexb).and_then(|()| out.flush());
                written.map_err(|error| Failure::file(name, &error))
            }
            Self::Mp4(writer, file, name) => {
                writer.push(frame).map_err(|error| Failure::Environment(format!("{name}: {error}")))?;
                file.write_all(&writer.take()).map_err(|error| Failure::file(name, &error))
            }
            Self::Rtp(out) => out.write(frame),
        }
    }

    /// Completes what was written.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        match self {
            Self::Bytes(mut out, name) => out.flush().map_err(|error| Failure::file(&name, &error)),
            Self::Mp4(writer, _, name) if writer.frames() == 0 => {
                Err(Failure::Peer(format!("{name}: no frame came, so that there is nothing to keep")))
            }
            Self::Mp4(mut writer, mut file, name) => {
                writer.finish();
                file.write_all(&writer.take()).map_err(|error| Failure::file(&name, &error))
            }
            Self::Rtp(_) => Ok(()),
        }
    }
}

impl RtpOutput {
    fn write(&mut self, frame: &PlayoutFrame) -> Result<(), Failure> {
        for adu in self.packetizer.packetize(&as_sent(frame)?) {
            match self.socket.send_to(&adu.rtp, self.to) {
                Ok(_) => {}
                // Nobody listens there (yet): a player may be started later.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(error) => return Err(Failure::file(&format!("udp://{}", self.to), &error)),
            }
        }
        Ok(())
    }
}

/// A frame as a packetizer takes it. Its worth and its references are for those who choose, and nobody does here.
fn as_sent(frame: &PlayoutFrame) -> Result<Frame, Failure> {
    let mut splitter = NalSplitter::new(frame.annexb.len() + 1);
    splitter.push(&frame.annexb)?;
    splitter.finish()?;
    Ok(Frame {
        index: 0,
        kind: frame.kind,
        reference: frame.reference,
        frame_num: 0,
        entry: None,
        gop_position: 0,
        display_index: 0,
        capture: Duration::ZERO,
        handover: Duration::ZERO,
        duration: Duration::ZERO,
        rtp_ticks: u64::from(frame.rtp_timestamp),
        references: References::NONE,
        priority: timeous::core::Priority::NORMAL,
        nals: std::iter::from_fn(|| splitter.next_nal()).collect(),
    })
}
