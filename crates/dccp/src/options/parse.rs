//! Parser of a packet's options, as tolerant as RFC 4340 §5.8 and as strict as §5.8.2 demand.

use super::kind;
use super::opt::{Opt, PARITY_MAP, Side, is_permitted};
use super::ticks::Ticks;
use crate::packet_type::PacketType;
use crate::reset::ResetReason;

/// Iterator over the options of a packet, in order.
///
/// Skips what a receiver must ignore: padding, unknown and malformed options, options that this packet type may not
/// carry, and everything after a nonsensical length (RFC 4340 §5.8). An error means that the connection must be reset,
/// and ends the iteration.
///
/// ```
/// use timeous_dccp::{Opt, Options, PacketType};
/// let bytes = [1, 2, 99, 3, 0, 0];
/// let mut options = Options::new(&bytes, PacketType::Ack);
/// let item = options.next().unwrap()?;
/// assert_eq!((item.opt, item.mandatory), (Opt::SlowReceiver, true));
/// assert!(options.next().is_none(), "99 is unknown, the rest is padding");
/// # Ok::<(), timeous_dccp::OptionError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Options<'a> {
    rest: &'a [u8],
    packet: PacketType,
}

/// An option that is supported here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OptionItem<'a> {
    /// The option.
    pub opt: Opt<'a>,
    /// Whether Mandatory precedes it: if you do not process it, reset with [`OptionItem::refusal`].
    pub mandatory: bool,
    data: &'a [u8],
}

impl OptionItem<'_> {
    /// Returns the Reset for a mandatory option that is not processed (RFC 4340 §5.8.2).
    pub fn refusal(&self) -> ResetReason {
        ResetReason::mandatory_error(self.opt.kind(), self.data)
    }

    /// Returns the Reset for a seriously wrong option (RFC 4340 §5.6, code 5).
    pub fn error(&self) -> ResetReason {
        ResetReason::option_error(self.opt.kind(), self.data)
    }
}

/// Error in the peer's options: reset the connection with [`OptionError::reset`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OptionError {
    /// Mandatory is the last option, or precedes another Mandatory (RFC 4340 §5.8.2).
    #[error("the peer sent a Mandatory option with no option to mark; reset the connection with Option Error")]
    DanglingMandatory,
    /// A mandatory option is unknown, malformed or on the wrong packet type (RFC 4340 §5.8.2).
    #[error("the peer marked an option of type {kind} mandatory that cannot be processed; reset with Mandatory Error")]
    Mandatory {
        /// The option type.
        kind: u8,
        /// First two bytes of its data, zero if missing.
        data: [u8; 2],
    },
}

impl OptionError {
    /// Returns the contents of the DCCP-Reset.
    pub fn reset(&self) -> ResetReason {
        match self {
            Self::DanglingMandatory => ResetReason::option_error(kind::MANDATORY, &[]),
            Self::Mandatory { kind, data } => ResetReason::mandatory_error(*kind, data),
        }
    }

    fn mandatory(kind: u8, data: &[u8]) -> Self {
        let ResetReason { data: [_, first, second], .. } = ResetReason::mandatory_error(kind, data);
        Self::Mandatory { kind, data: [first, second] }
    }
}

impl<'a> Options<'a> {
    /// Parses `bytes`, the option part of a packet of type `packet`.
    pub const fn new(bytes: &'a [u8], packet: PacketType) -> Self {
        Self { rest: bytes, packet }
    }

    /// Splits off the next option: its type, and its data unless the length is nonsensical.
    fn split(&mut self) -> Option<(u8, Option<&'a [u8]>)> {
        let (&kind, after) = self.rest.split_first()?;
        if kind <= kind::LAST_SINGLE_BYTE {
            self.rest = after;
            return Some((kind, Some(&[])));
        }
        let length = after.first().map_or(0, |&l| usize::from(l));
        let option = if length < 2 { None } else { self.rest.split_at_checked(length) };
        // "any option space following an option with nonsensical length MUST likewise be ignored" (§5.8).
        self.rest = option.map_or(&[], |(_, rest)| rest);
        Some((kind, option.map(|(option, _)| &option[2..])))
    }

    fn fail<T>(&mut self, error: OptionError) -> Option<Result<T, OptionError>> {
        self.rest = &[];
        Some(Err(error))
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<OptionItem<'a>, OptionError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut mandatory = false;
        while let Some((kind, data)) = self.split() {
            match kind {
                kind::MANDATORY if !is_permitted(kind, self.packet) => {}
                kind::MANDATORY if mandatory => return self.fail(OptionError::DanglingMandatory),
                kind::MANDATORY => mandatory = true,
                // "the combination 'Mandatory Padding' is valid" (§5.8.2).
                kind::PADDING => mandatory = false,
                _ => {
                    let permitted = is_permitted(kind, self.packet);
                    let opt = data.filter(|_| permitted).and_then(|data| decode(kind, data));
                    let data = data.unwrap_or(&[]);
                    match opt {
                        Some(opt) => return Some(Ok(OptionItem { opt, mandatory, data })),
                        // "Confirm options behave identically … whether or not they are Mandatory" (§6.6.9).
                        None if matches!(kind, kind::CONFIRM_L | kind::CONFIRM_R) => mandatory = false,
                        None if mandatory => return self.fail(OptionError::mandatory(kind, data)),
                        None => {}
                    }
                }
            }
        }
        if mandatory { self.fail(OptionError::DanglingMandatory) } else { None }
    }
}

/// Decodes an option; `None` if its type is unknown or its length illegal.
fn decode(kind: u8, data: &[u8]) -> Option<Opt<'_>> {
    Some(match kind {
        kind::SLOW_RECEIVER => Opt::SlowReceiver,
        kind::CHANGE_L | kind::CHANGE_R => {
            let (&feature, values) = data.split_first()?;
            Opt::Change { side: if kind == kind::CHANGE_L { Side::L } else { Side::R }, feature, values }
        }
        kind::CONFIRM_L | kind::CONFIRM_R => {
            let (&feature, values) = data.split_first()?;
            Opt::Confirm { side: if kind == kind::CONFIRM_L { Side::L } else { Side::R }, feature, values }
        }
        kind::INIT_COOKIE => Opt::InitCookie(data),
        kind::NDP_COUNT if (1..=6).contains(&data.len()) => {
            Opt::NdpCount(data.iter().fold(0, |count, &byte| count << 8 | u64::from(byte)))
        }
        kind::ACK_VECTOR_0 | kind::ACK_VECTOR_1 => Opt::AckVector { nonce: kind == kind::ACK_VECTOR_1, vector: data },
        kind::DATA_DROPPED => Opt::DataDropped(data),
        kind::TIMESTAMP => Opt::Timestamp(ticks(data, &[4])?),
        kind::TIMESTAMP_ECHO => {
            let (echo, elapsed) = data.split_at_checked(4)?;
            Opt::TimestampEcho { echo: ticks(echo, &[4])?, elapsed: ticks(elapsed, &[0, 2, 4])? }
        }
        kind::ELAPSED_TIME => Opt::ElapsedTime(ticks(data, &[2, 4])?),
        kind::DATA_CHECKSUM => Opt::DataChecksum(ticks(data, &[4])?.get()),
        kind::SENT_AT => Opt::SentAt(ticks(data, &[4])?),
        kind::FRAGMENT if data.is_empty() => Opt::Fragment,
        kind::REPEAT => Opt::Repeat(u16::from_be_bytes(data.try_into().ok()?)),
        kind::PARITY => {
            let (&[first, second, index, of], map) = data.split_first_chunk::<4>()?;
            (1..=PARITY_MAP).contains(&map.len()).then_some(Opt::Parity {
                back: u16::from_be_bytes([first, second]),
                index,
                of,
                map,
            })?
        }
        kind::FIRST_CCID_SPECIFIC.. => Opt::CcidSpecific { kind, data },
        _ => return None,
    })
}

/// Decodes a big-endian number of one of the legal lengths.
fn ticks(data: &[u8], lengths: &[usize]) -> Option<Ticks> {
    lengths.contains(&data.len()).then(|| Ticks::new(data.iter().fold(0, |n, &byte| n << 8 | u32::from(byte))))
}
