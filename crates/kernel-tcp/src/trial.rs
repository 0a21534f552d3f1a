//! A changed retransmission on purpose: a segment that expires at a router of the path is sent again with other bytes
//! (McQuistin §4.2).

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use timeous_core::Duration;

use crate::socket::{Notice, Socket};
use crate::zone::{Slot, Zone};

/// Length of the bytes that a trial sends to a Timeous listener, which sends back what has arrived of them.
pub const TRIAL_LEN: usize = 32;
/// First bytes of a trial. No stream begins so: a record between its zeros cannot be so short.
const MAGIC: [u8; 16] = *b"\0timeous trial\0\0";

/// Returns a version of a trial's bytes; two versions differ in every byte behind the first sixteen.
pub fn trial_bytes(version: u8) -> [u8; TRIAL_LEN] {
    let mut bytes = [version; TRIAL_LEN];
    bytes[..MAGIC.len()].copy_from_slice(&MAGIC);
    bytes
}

/// Whether the first bytes that have arrived are those of a trial, which come in one segment.
pub(crate) fn is_trial(bytes: &[u8]) -> bool {
    bytes.len() >= TRIAL_LEN && bytes.starts_with(&MAGIC)
}

/// A TCP connection whose packets can be kept from reaching the peer, and whose unacknowledged bytes can be changed.
#[derive(Debug)]
pub struct Trial {
    socket: Socket,
    zone: Zone,
    slot: Slot,
}

/// State of a trial's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrialView {
    /// Smoothed round-trip time; `None`: no sample yet.
    pub srtt: Option<Duration>,
    /// Whether the peer has acknowledged all bytes.
    pub is_acknowledged: bool,
    /// Number of segments that were retransmitted.
    pub retransmitted: u32,
    /// Largest segment, in bytes of data.
    pub mss: u32,
    /// Whether both ends have agreed on ECN.
    pub has_ecn: bool,
}

impl Trial {
    /// Longest bytes that it can send.
    const LONGEST: usize = 1024;

    /// Starts to connect, with packets that pass at most `hops - 1` routers; `None`: as many as usual.
    ///
    /// # Errors
    /// The system's.
    pub fn call(remote: SocketAddr, hops: Option<u8>) -> io::Result<Self> {
        let mut zone = Zone::new(Self::LONGEST)?;
        let slot = zone.take().expect("a new zone has room");
        Ok(Self { socket: Socket::call_within(None, remote, hops)?, zone, slot })
    }

    /// Returns whether the peer has accepted the connection.
    ///
    /// # Errors
    /// The reason why the call has failed.
    pub fn is_answered(&self) -> io::Result<bool> {
        self.socket.take_error()?;
        Ok(self.socket.peer().is_ok())
    }

    /// Limits the routers that packets pass from now on.
    ///
    /// # Errors
    /// The system's.
    pub fn set_hops(&self, hops: Option<u8>) -> io::Result<()> {
        self.socket.set_hops(hops)
    }

    /// Sends bytes as one segment, from memory that [`change`](Self::change) overwrites.
    ///
    /// # Errors
    /// The system's; `Unsupported`: it cannot send from an application's memory.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        if !self.socket.allow_zero_copy() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.socket.set_up(Duration::from_secs(30))?;
        self.zone.write(&self.slot, bytes);
        match self.socket.send_from(&self.zone.part(&self.slot, 0, bytes.len()), false)? {
            Some(len) if len == bytes.len() => Ok(()),
            _ => Err(io::ErrorKind::WriteZero.into()),
        }
    }

    /// Overwrites the bytes that were sent: retransmissions carry the new ones.
    pub fn change(&mut self, bytes: &[u8]) {
        self.zone.write(&self.slot, bytes);
    }

    /// Returns whether the system has copied the bytes that were sent, so that a change has no effect. To be asked before they are
    /// acknowledged.
    ///
    /// # Errors
    /// The system's.
    pub fn is_copied(&self) -> io::Result<bool> {
        Ok(matches!(self.socket.notice()?, Some(Notice::Released(released)) if released.copied))
    }

    /// Reads bytes. `None`: none are available. Zero: end of stream.
    ///
    /// # Errors
    /// The system's.
    pub fn receive(&mut self, into: &mut [u8]) -> io::Result<Option<usize>> {
        self.socket.receive(into)
    }

    /// Returns the connection's state.
    ///
    /// # Errors
    /// The system's.
    pub fn view(&self) -> io::Result<TrialView> {
        let info = self.socket.info()?;
        Ok(TrialView {
            srtt: info.srtt(),
            is_acknowledged: self.socket.unacknowledged()? == 0,
            retransmitted: info.retransmitted(),
            mss: info.mss(),
            has_ecn: info.has_ecn(),
        })
    }
}

impl AsFd for Trial {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_is_told_from_a_stream() {
        let bytes = trial_bytes(7);
        assert!(is_trial(&bytes));
        assert!(!is_trial(&bytes[..TRIAL_LEN - 1]) && !is_trial(&[]) && !is_trial(&[0; TRIAL_LEN]));
        let changed = trial_bytes(8);
        assert!(is_trial(&changed) && bytes[MAGIC.len()..].iter().zip(&changed[MAGIC.len()..]).all(|(a, b)| a != b));
    }
}
