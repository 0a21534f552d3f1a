//! The header options supported here (RFC 9293 §3.2, RFC 2018, RFC 7323), and their encoding.

use super::sack::{SackBlock, SackBlocks};
use crate::seq::Seq;

/// Maximum length of the options in bytes: the maximum header of 60 less the fixed 20 (RFC 9293 §3.1).
pub const MAX_OPTION_BYTES: usize = 40;

/// Maximum window scale (RFC 7323 §2.3).
pub const MAX_WINDOW_SCALE: u8 = 14;

const END: u8 = 0;
const NOP: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;

/// The Timestamps option (RFC 7323 §3.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Timestamps {
    /// TSval: the sender's clock.
    pub value: u32,
    /// TSecr: the peer's clock, echoed; valid only with an acknowledgement.
    pub echo: u32,
}

/// Options of one header, without unknown ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// Maximum segment size that the sender can receive (RFC 9293 §3.7.1); on a SYN only.
    pub mss: Option<u16>,
    /// Window scale of the sender, at most 14 (RFC 7323 §2.2); on a SYN only.
    pub window_scale: Option<u8>,
    /// SACK-Permitted (RFC 2018 §2); on a SYN only.
    pub sack_permitted: bool,
    /// Timestamps.
    pub timestamps: Option<Timestamps>,
    /// SACK blocks: data received beyond the acknowledgement.
    pub sack: SackBlocks,
}

impl Options {
    /// Returns the length of these options in a header, padding included, by which the payload is shorter (RFC 6691
    /// §2).
    ///
    /// ```
    /// use timeous_tcp::{Options, Timestamps};
    /// let options = Options { timestamps: Some(Timestamps::default()), ..Options::default() };
    /// assert_eq!(options.len(), 12);
    /// ```
    pub fn len(&self) -> usize {
        let sack = if self.sack.is_empty() { 0 } else { 4 + 8 * self.sack.len() };
        let handshake = match (self.sack_permitted, self.timestamps.is_some()) {
            (false, false) => 0,
            (true, false) => 4,
            (_, true) => 12,
        };
        4 * usize::from(self.mss.is_some()) + 4 * usize::from(self.window_scale.is_some()) + handshake + sack
    }

    /// Returns whether there are no options.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of SACK blocks that fit beside the other options.
    pub fn room_for_sack(&self) -> usize {
        let others = Self { sack: SackBlocks::default(), ..*self }.len();
        MAX_OPTION_BYTES.saturating_sub(others + 4) / 8
    }

    /// Returns whether an option is present that is valid on a SYN only.
    pub(super) fn needs_syn(&self) -> bool {
        self.mss.is_some() || self.window_scale.is_some() || self.sack_permitted
    }

    /// Appends the options, aligned to words in the usual way (RFC 7323 appendix A).
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        if let Some(mss) = self.mss {
            out.extend_from_slice(&[MSS, 4]);
            out.extend_from_slice(&mss.to_be_bytes());
        }
        let filler = if self.sack_permitted { [SACK_PERMITTED, 2] } else { [NOP, NOP] };
        if let Some(timestamps) = self.timestamps {
            out.extend_from_slice(&filler);
            out.extend_from_slice(&[TIMESTAMPS, 10]);
            out.extend_from_slice(&timestamps.value.to_be_bytes());
            out.extend_from_slice(&timestamps.echo.to_be_bytes());
        } else if self.sack_permitted {
            out.extend_from_slice(&[NOP, NOP]);
            out.extend_from_slice(&filler);
        }
        if let Some(shift) = self.window_scale {
            out.extend_from_slice(&[NOP, WINDOW_SCALE, 3, shift]);
        }
        if !self.sack.is_empty() {
            out.extend_from_slice(&[NOP, NOP, SACK, 2 + 8 * self.sack.len() as u8]);
            for block in self.sack.iter() {
                out.extend_from_slice(&block.left.value().to_be_bytes());
                out.extend_from_slice(&block.right.value().to_be_bytes());
            }
        }
    }

    /// Parses the option part of a header.
    ///
    /// Unknown options, those with a wrong length, and those on the wrong segment are skipped; of repeated options the
    /// last counts. An impossible length ends the parsing (RFC 9293 §3.2, MUST-7).
    pub(super) fn decode(mut rest: &[u8], syn: bool) -> Self {
        let mut options = Self::default();
        while let Some((&kind, after)) = rest.split_first() {
            match kind {
                END => break,
                NOP => rest = after,
                _ => {
                    let length = after.first().map_or(0, |&length| usize::from(length));
                    let Some((option, others)) = rest.split_at_checked(length).filter(|_| length >= 2) else { break };
                    options.take(kind, &option[2..], syn);
                    rest = others;
                }
            }
        }
        options
    }

    fn take(&mut self, kind: u8, data: &[u8], syn: bool) {
        match (kind, data) {
            // An MSS of zero would allow no data: ignored, as in Linux.
            (MSS, &[high, low]) if syn && (high, low) != (0, 0) => self.mss = Some(u16::from_be_bytes([high, low])),
            // "If a Window Scale option is received with a shift.cnt value larger than 14, the TCP SHOULD log the
            // error but MUST use 14 instead of the specified value" (RFC 7323 §2.3).
            (WINDOW_SCALE, &[shift]) if syn => self.window_scale = Some(shift.min(MAX_WINDOW_SCALE)),
            (SACK_PERMITTED, []) if syn => self.sack_permitted = true,
            (SACK, data) => {
                if let (blocks, []) = data.as_chunks::<8>() {
                    self.sack = blocks.iter().map(|block| sack_block(*block)).collect();
                }
            }
            (TIMESTAMPS, &[v0, v1, v2, v3, e0, e1, e2, e3]) => {
                let value = u32::from_be_bytes([v0, v1, v2, v3]);
                self.timestamps = Some(Timestamps { value, echo: u32::from_be_bytes([e0, e1, e2, e3]) });
            }
            _ => {}
        }
    }
}

fn sack_block([l0, l1, l2, l3, r0, r1, r2, r3]: [u8; 8]) -> SackBlock {
    let left = Seq::new(u32::from_be_bytes([l0, l1, l2, l3]));
    SackBlock { left, right: Seq::new(u32::from_be_bytes([r0, r1, r2, r3])) }
}
