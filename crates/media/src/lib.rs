//! Live media for unreliable transports: splits H.264, MPEG-TS and RTP into frames and RTP packets; reassembles them in
//! time. MPEG-TS is in [`ts`], what becomes MPEG-TS in [`container`], RTP of other codecs in [`passthrough`].
//!
//! Sending: [`FrameReader`] splits an Annex B stream into [`Frame`]s and finds their references; [`Packetizer`] turns
//! them into RTP packets (RFC 6184), each with the [`AduMeta`](timeous_core::AduMeta) that late choice works on.
//! Receiving: [`Playout`] (jitter buffer) reassembles packets and releases frames that are complete, decodable and in
//! time. [`Mp4Writer`](mp4::Mp4Writer) records them as MP4.
//!
//! The crate is sans-IO: callers pass in bytes and instants, and poll for output. [`container::Container`] reads what is
//! [`Read`](std::io::Read) and [`Seek`](std::io::Seek).
//!
//! ```
//! use timeous_media::{FrameReader, Packetizer, PacketizerConfig, Playout, PlayoutConfig};
//! use timeous_core::{Duration, Instant};
//!
//! # let clip = include_bytes!("../../../assets/clip.h264");
//! let mut reader = FrameReader::new(None);
//! let mut packetizer = Packetizer::new(PacketizerConfig::default())?;
//! let latency = Duration::from_millis(200);
//! let mut playout = Playout::new(PlayoutConfig::new(latency));
//! reader.push(&clip[..200_000])?;
//! while let Some(frame) = reader.next_frame() {
//!     let now = Instant::ZERO + frame.handover;
//!     for mut adu in packetizer.packetize(&frame) {
//!         adu.meta.enqueued = now;
//!         adu.meta.deadline = Some(Instant::ZERO + adu.capture + latency);
//!         playout.handle_packet(now, &adu.rtp)?; // in place of a network
//!     }
//! }
//! let first = playout.poll_frame().expect("nothing was lost, so that the first frame can be shown");
//! assert!(first.annexb.starts_with(&[0, 0, 0, 1]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod aac;
mod av1;
mod cadence;
mod clock;
pub mod container;
mod error;
mod flv;
mod frame;
mod h264;
mod h265;
mod jitter;
pub mod mp4;
pub mod passthrough;
mod pictures;
mod playout;
mod rtp;
mod simulcast;
pub mod ts;
mod whole;

pub use cadence::Cadence;
pub use clock::{ClockChange, MediaClock};
pub use error::{MediaError, PacketizeError, RtpError};
pub use flv::{FlvMuxer, TsToFlv};
pub use frame::{EntryPoint, Frame, FrameKind, FramePart, FrameRate};
pub use h264::annexb;
pub use h264::left_out::LeftOut;
pub use h264::parameters::is_parameter_set;
pub use h264::reader::{Ending, FrameReader};
pub use jitter::WholeFrameCounts;
pub use pictures::UnitKind;
pub use playout::{
    FrameFate, FrameReport, PacketStats, PictureFormat, Playout, PlayoutConfig, PlayoutEvent, PlayoutFrame, Release,
};
pub use rtp::RTP_CLOCK_HZ;
pub use rtp::control::{self, Control};
pub use rtp::packetize::{MediaAdu, Packetizer, PacketizerConfig, Stamp};
pub use rtp::sdp::{SdpError, SessionDescription};
pub use rtp::session::{MediaDescription, MediaKind, Session};
pub use rtp::{Distances, FrameDescriptor};
pub use simulcast::Simulcast;
pub use whole::WholeFramePlayout;
