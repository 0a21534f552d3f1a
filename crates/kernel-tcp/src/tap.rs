//! Packet tap on a connection: reads its segments as they arrive, before the kernel has put them in order.

mod filter;
mod ip;
#[allow(unsafe_code, reason = "the room that gives addresses to the kernel")]
mod packets;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use timeous_tcp::{Addresses, ObservedConnection, Segment};

use filter::{Ends, filter};
use packets::{Direction, Packets};

/// Maximum number of packets read per turn, so that other streams have theirs. Chosen by us: a higher value costs fewer
/// wake-ups and delays the others.
const TURN: u32 = 256;

/// The tap.
#[derive(Debug)]
pub(crate) struct Tap {
    packets: Packets,
    ends: Ends,
    overheard: ObservedConnection,
    buffer: Vec<u8>,
}

/// Observation by the tap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TapObservation<'a> {
    /// Data that the kernel will accept, with its position in the stream.
    Data(u64, &'a [u8]),
    /// All data before this position has arrived.
    Passed(u64),
}

/// # Errors
/// The system's, such as missing permission (`CAP_NET_RAW`).
pub(crate) fn may_be_had() -> io::Result<()> {
    Packets::open().map(drop)
}

impl Tap {
    /// Opens a tap on the connection between `local` and `remote`; `scale` is the window scale that the kernel
    /// advertises.
    pub(crate) fn open(local: SocketAddr, remote: SocketAddr, scale: u8) -> io::Result<Self> {
        let packets = Packets::open()?;
        let ends = Ends::new(local, remote)?;
        packets.listen(&filter(&ends))?;
        Ok(Self { packets, ends, overheard: ObservedConnection::new(scale), buffer: vec![0; packets::LONGEST] })
    }

    /// Reads the packets seen since the last call.
    pub(crate) fn look(&mut self, mut sight: impl FnMut(TapObservation<'_>)) -> io::Result<()> {
        for _ in 0..TURN {
            let Some(packet) = self.packets.next(&mut self.buffer)? else { break };
            let Some((addresses, bytes)) = ip::segment(&self.buffer[..packet.len]) else { continue };
            let ours = Addresses { source: self.ends.local.ip(), destination: self.ends.remote.ip() };
            match packet.direction {
                Direction::Sent if addresses == ours => {
                    // The packet may be truncated, and its checksum left to the device.
                    let Ok(segment) = Segment::parse_trusted(bytes) else { continue };
                    if self.is_between(&segment, self.ends.local, self.ends.remote) {
                        self.overheard
                            .handle_sent(&segment)
                            .into_iter()
                            .for_each(|at| sight(TapObservation::Passed(at)));
                    }
                }
                Direction::Arriving if addresses == ours.reversed() => {
                    let parsed = match packet.vouched {
                        true => Segment::parse_trusted(bytes),
                        false => Segment::parse(bytes, addresses),
                    };
                    let Ok(segment) = parsed else { continue };
                    if self.is_between(&segment, self.ends.remote, self.ends.local)
                        && let Some((at, data)) = self.overheard.handle_arriving(&segment)
                    {
                        sight(TapObservation::Data(at, data));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn is_between(&self, segment: &Segment<'_>, from: SocketAddr, to: SocketAddr) -> bool {
        (segment.header.source_port, segment.header.dest_port) == (from.port(), to.port())
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.packets.as_fd()
    }
}
