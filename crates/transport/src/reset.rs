//! Reset Codes of RFC 4340 §5.6, with their data bytes.

use std::fmt;

use timeous_core::Ecn;

/// A Reset Code (RFC 4340 §5.6, table 2; RFC 6773 §3.8 for 12). Its `Display` is a sentence for users.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResetCode {
    /// 0: no meaningful code. A sender should choose a better one.
    Unspecified,
    /// 1: normal close.
    Closed,
    /// 2: the sender gave up for lack of progress.
    Aborted,
    /// 3: no such connection.
    NoConnection,
    /// 4: a valid packet of an unexpected type; data 1 is that type.
    PacketError,
    /// 5: a serious error in an option; the data are its type and first two bytes.
    OptionError,
    /// 6: a Mandatory option could not be processed; the data are as for 5.
    MandatoryError,
    /// 7: nobody listens on the port.
    ConnectionRefused,
    /// 8: the Service Code is not the one offered on the port.
    BadServiceCode,
    /// 9: the server accepts no more connections.
    TooBusy,
    /// 10: the client's Init Cookie is wrong or missing.
    BadInitCookie,
    /// 11: congestion control was cheated.
    AggressionPenalty,
    /// 12: this UDP 4-tuple carries another connection already (RFC 6773 §3.8).
    EncapsulatedPortReuse,
    /// 120, which RFC 4340 §5.6 leaves to experiments: the port takes encrypted packets only, or callers of its own host only.
    Unencrypted,
    /// 13 to 127: treated as [`ResetCode::Unspecified`].
    Reserved(u8),
    /// 128 to 255: the meaning is the CCID's; up to 191 the HC-Sender reset, from 192 the HC-Receiver (§10.3).
    CcidSpecific(u8),
}

impl ResetCode {
    /// The code's number on the wire.
    pub const fn number(self) -> u8 {
        match self {
            Self::Unspecified => 0,
            Self::Closed => 1,
            Self::Aborted => 2,
            Self::NoConnection => 3,
            Self::PacketError => 4,
            Self::OptionError => 5,
            Self::MandatoryError => 6,
            Self::ConnectionRefused => 7,
            Self::BadServiceCode => 8,
            Self::TooBusy => 9,
            Self::BadInitCookie => 10,
            Self::AggressionPenalty => 11,
            Self::EncapsulatedPortReuse => 12,
            Self::Unencrypted => 120,
            Self::Reserved(n) | Self::CcidSpecific(n) => n,
        }
    }
}

impl From<u8> for ResetCode {
    fn from(number: u8) -> Self {
        match number {
            0 => Self::Unspecified,
            1 => Self::Closed,
            2 => Self::Aborted,
            3 => Self::NoConnection,
            4 => Self::PacketError,
            5 => Self::OptionError,
            6 => Self::MandatoryError,
            7 => Self::ConnectionRefused,
            8 => Self::BadServiceCode,
            9 => Self::TooBusy,
            10 => Self::BadInitCookie,
            11 => Self::AggressionPenalty,
            12 => Self::EncapsulatedPortReuse,
            120 => Self::Unencrypted,
            13..=127 => Self::Reserved(number),
            128..=255 => Self::CcidSpecific(number),
        }
    }
}

impl fmt::Display for ResetCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unspecified => "the peer reset the connection without saying why",
            Self::Closed => "the connection was closed normally",
            Self::Aborted => "the peer gave up because the connection made no progress",
            Self::NoConnection => "the peer knows no such connection",
            Self::PacketError => "the peer did not expect a packet of this type",
            Self::OptionError => "the peer found a serious error in an option",
            Self::MandatoryError => "the peer could not process an option marked mandatory",
            Self::ConnectionRefused => "nobody listens on this port",
            Self::BadServiceCode => "the port offers another service than the one asked for",
            Self::TooBusy => "the server is too busy to accept connections",
            Self::BadInitCookie => "the handshake's cookie came back wrong or not at all",
            Self::AggressionPenalty => "the peer detected a congestion control violation",
            Self::EncapsulatedPortReuse => "this pair of UDP ports carries another connection already",
            Self::Unencrypted => "the peer takes encrypted streams only: give a credential, such as passphrase=",
            Self::Reserved(n) => return write!(f, "the peer reset the connection with the unassigned code {n}"),
            Self::CcidSpecific(n) => return write!(f, "the congestion control reset the connection with its code {n}"),
        })
    }
}

/// Data 1 of a Reset that tells an ECN field in its two lowest bits. Chosen by us.
const TELLS_ECN: u8 = 0xec;

/// A Reset Code with its three data bytes, ready for a DCCP-Reset (RFC 4340 §5.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResetReason {
    /// The code.
    pub code: ResetCode,
    /// Data 1, Data 2 and Data 3.
    pub data: [u8; 3],
}

impl ResetReason {
    /// `code` with its data bytes zero, as most codes want them.
    pub const fn plain(code: ResetCode) -> Self {
        Self { code, data: [0; 3] }
    }

    /// `code`, with the ECN field of the packet that is refused in Data 1, which these codes leave unused.
    pub const fn with_ecn(code: ResetCode, ecn: Ecn) -> Self {
        Self { code, data: [TELLS_ECN | ecn as u8, 0, 0] }
    }

    /// Returns the ECN field of the refused packet, if the peer tells it.
    pub const fn told_ecn(&self) -> Option<Ecn> {
        match self.data[0] ^ TELLS_ECN {
            0b00 => Some(Ecn::NotEct),
            0b01 => Some(Ecn::Ect1),
            0b10 => Some(Ecn::Ect0),
            0b11 => Some(Ecn::Ce),
            _ => None,
        }
    }

    /// Reset Code 4 for a packet of type `packet_type`.
    pub const fn packet_error(packet_type: u8) -> Self {
        Self { code: ResetCode::PacketError, data: [packet_type, 0, 0] }
    }

    /// Reset Code 5 for the option of type `kind` that holds `data`.
    pub fn option_error(kind: u8, data: &[u8]) -> Self {
        Self { code: ResetCode::OptionError, data: option_data(kind, data) }
    }

    /// Reset Code 6 for the option of type `kind` that holds `data`.
    pub fn mandatory_error(kind: u8, data: &[u8]) -> Self {
        Self { code: ResetCode::MandatoryError, data: option_data(kind, data) }
    }
}

/// "Data 2 and Data 3 equal the first two bytes of option data (or zero if …)" (RFC 4340 §5.6).
fn option_data(kind: u8, data: &[u8]) -> [u8; 3] {
    let byte = |i: usize| data.get(i).copied().unwrap_or(0);
    [kind, byte(0), byte(1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_one_code() {
        for number in 0..=255 {
            let code = ResetCode::from(number);
            assert_eq!(code.number(), number);
            assert!(!code.to_string().is_empty());
        }
    }

    #[test]
    fn an_ecn_field_is_told_or_not() {
        for ecn in [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce] {
            assert_eq!(ResetReason::with_ecn(ResetCode::BadServiceCode, ecn).told_ecn(), Some(ecn));
        }
        assert_eq!(ResetReason::plain(ResetCode::BadServiceCode).told_ecn(), None);
    }

    #[test]
    fn option_errors_quote_the_option() {
        assert_eq!(ResetReason::option_error(39, &[7, 8, 9]).data, [39, 7, 8]);
        assert_eq!(ResetReason::mandatory_error(32, &[5]).data, [32, 5, 0]);
    }
}
