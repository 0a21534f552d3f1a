//! Writing a segment in two steps: the header first, so that the payload can be chosen afterwards.

use super::checksum::{Addresses, checksum};
use super::flags::Flags;
use super::header::Header;
use super::options::{MAX_OPTION_BYTES, MAX_WINDOW_SCALE, Options};
use crate::seq::Seq;

const SEQ: std::ops::Range<usize> = 4..8;
const FLAGS: usize = 13;
const CHECKSUM: std::ops::Range<usize> = 16..18;

/// The requested segment is not valid in TCP.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EmitError {
    /// The options exceed 40 bytes.
    #[error("options of {needed} bytes do not fit into the 40 of a header: ask Options::room_for_sack")]
    OptionsTooLong {
        /// Their length in bytes.
        needed: usize,
    },
    /// An MSS, window scale or SACK-permitted option without SYN.
    #[error("an option that belongs to the handshake stands on a segment without SYN: leave it out")]
    OnlyOnSyn,
    /// A window scale above 14 (RFC 7323 §2.3).
    #[error("a window scale of {shift} is too great: 14 at most")]
    WindowScale {
        /// The requested window scale.
        shift: u8,
    },
    /// No segment begins at this offset.
    #[error("no segment begins at byte {start} of the buffer: pass what begin() returned")]
    NotBegun {
        /// The given offset.
        start: usize,
    },
}

/// Appends header and options to `out` and returns the segment's offset: append the payload to `out`, then call
/// [`finish`].
///
/// # Errors
/// An [`EmitError`] if the segment is not valid in TCP; `out` is unchanged then.
pub fn begin(header: &Header, options: &Options, out: &mut Vec<u8>) -> Result<usize, EmitError> {
    let needed = options.len();
    if needed > MAX_OPTION_BYTES {
        return Err(EmitError::OptionsTooLong { needed });
    }
    if options.needs_syn() && !header.flags.contains(Flags::SYN) {
        return Err(EmitError::OnlyOnSyn);
    }
    if let Some(shift) = options.window_scale.filter(|&shift| shift > MAX_WINDOW_SCALE) {
        return Err(EmitError::WindowScale { shift });
    }
    let start = out.len();
    let words = ((Header::MIN_LEN + needed) / 4) as u8;
    let ack = if header.ack.is_some() { Flags::ACK_BIT } else { 0 };
    let urgent = if header.urgent.is_some() { Flags::URG_BIT } else { 0 };
    out.extend_from_slice(&header.source_port.to_be_bytes());
    out.extend_from_slice(&header.dest_port.to_be_bytes());
    out.extend_from_slice(&header.seq.value().to_be_bytes());
    out.extend_from_slice(&header.ack.unwrap_or_default().value().to_be_bytes());
    out.extend_from_slice(&[words << 4, header.flags.bits() | ack | urgent]);
    out.extend_from_slice(&header.window.to_be_bytes());
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(&header.urgent.unwrap_or_default().to_be_bytes());
    options.encode(out);
    Ok(start)
}

/// Sets control bits of a segment that was begun, since PSH and FIN may depend on the payload.
///
/// # Errors
/// [`EmitError::NotBegun`] if `start` is not what [`begin`] returned.
pub fn add_flags(out: &mut [u8], start: usize, flags: Flags) -> Result<(), EmitError> {
    begun(out, start)?[FLAGS] |= flags.bits();
    Ok(())
}

/// Changes the sequence number of a segment that was begun, since bundled data in front depends on the payload.
///
/// # Errors
/// [`EmitError::NotBegun`] if `start` is not what [`begin`] returned.
pub fn set_seq(out: &mut [u8], start: usize, seq: Seq) -> Result<(), EmitError> {
    begun(out, start)?[SEQ].copy_from_slice(&seq.value().to_be_bytes());
    Ok(())
}

/// Completes the segment from `start` to the end of `out`: fills in the checksum.
///
/// # Errors
/// [`EmitError::NotBegun`] if `start` is not what [`begin`] returned.
pub fn finish(out: &mut [u8], start: usize, addresses: Addresses) -> Result<(), EmitError> {
    let segment = begun(out, start)?;
    segment[CHECKSUM].fill(0);
    let sum = checksum(segment, addresses);
    segment[CHECKSUM].copy_from_slice(&sum.to_be_bytes());
    Ok(())
}

fn begun(out: &mut [u8], start: usize) -> Result<&mut [u8], EmitError> {
    out.get_mut(start..).filter(|segment| segment.len() >= Header::MIN_LEN).ok_or(EmitError::NotBegun { start })
}
