//! Service Codes: the 32 bits that name the application's service, and their text form (RFC 4340 §8.1.2).

use std::fmt;
use std::str::FromStr;

/// A Service Code.
///
/// ```
/// use timeous_dccp::ServiceCode;
/// let code: ServiceCode = "SC:fdpz".parse()?;
/// assert_eq!(code, ServiceCode::new(1_717_858_426));
/// assert_eq!(code, "SC=1717858426".parse()?);
/// assert_eq!(code, "SC=x6664707A".parse()?);
/// assert_eq!(code.to_string(), "SC:fdpz");
/// # Ok::<(), timeous_dccp::ServiceCodeError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceCode(u32);

impl ServiceCode {
    /// 0: no meaningful Service Code.
    pub const NONE: Self = Self(0);
    /// 4294967295: invalid; a server must reject it with "Bad Service Code".
    pub const INVALID: Self = Self(u32::MAX);

    /// A service that nobody offers: the refusal of a Request for it tells the ECN field that the Request came with.
    pub const PROBE: Self = Self::from_bytes(*b"prob");

    /// The Service Code with this number.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The Service Code whose four bytes are these characters, as in `*b"fdpz"`.
    pub const fn from_bytes(bytes: [u8; 4]) -> Self {
        Self(u32::from_be_bytes(bytes))
    }

    /// The canonical, numeric form.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// Whether a connection may use it: all but [`ServiceCode::INVALID`].
    pub const fn is_valid(self) -> bool {
        self.0 != u32::MAX
    }
}

/// The letters, digits and `-_+.*/?@` of RFC 4340 §8.1.2.
fn is_sc_char(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_+.*/?@".contains(&byte)
}

impl fmt::Display for ServiceCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0.to_be_bytes();
        let length = bytes.iter().rposition(|&b| b != b' ').map_or(0, |last| last + 1);
        match std::str::from_utf8(&bytes[..length]) {
            Ok(text) if !text.is_empty() && text.bytes().all(is_sc_char) => write!(f, "SC:{text}"),
            _ => write!(f, "SC={}", self.0),
        }
    }
}

impl fmt::Debug for ServiceCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The caller's text is no Service Code.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ServiceCodeError {
    /// Neither `SC:` nor `SC=` comes first.
    #[error("a Service Code starts with \"SC:\" or \"SC=\"")]
    Prefix,
    /// Not one to four characters of the set.
    #[error("\"SC:\" takes one to four letters, digits or characters of -_+.*/?@")]
    Text,
    /// Not a number up to 4294967294.
    #[error("\"SC=\" takes a decimal number, or x and a hexadecimal one, up to 4294967294")]
    Number,
}

impl FromStr for ServiceCode {
    type Err = ServiceCodeError;

    fn from_str(text: &str) -> Result<Self, ServiceCodeError> {
        if let Some(text) = text.strip_prefix("SC:") {
            return from_text(text.as_bytes());
        }
        let number = text.strip_prefix("SC=").ok_or(ServiceCodeError::Prefix)?;
        let (digits, radix) = match number.strip_prefix(['x', 'X']) {
            Some(digits) => (digits, 16),
            None => (number, 10),
        };
        // from_str_radix alone would take a sign.
        if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(ServiceCodeError::Number);
        }
        match u32::from_str_radix(digits, radix) {
            Ok(number) if number != u32::MAX => Ok(Self(number)),
            _ => Err(ServiceCodeError::Number),
        }
    }
}

fn from_text(text: &[u8]) -> Result<ServiceCode, ServiceCodeError> {
    if text.is_empty() || text.len() > 4 || !text.iter().copied().all(is_sc_char) {
        return Err(ServiceCodeError::Text);
    }
    let mut bytes = [b' '; 4];
    bytes[..text.len()].copy_from_slice(text);
    Ok(ServiceCode::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_are_padded_with_spaces() {
        assert_eq!("SC:a".parse(), Ok(ServiceCode::from_bytes(*b"a   ")));
        assert_eq!(ServiceCode::from_bytes(*b"a   ").to_string(), "SC:a");
    }

    #[test]
    fn what_cannot_be_written_as_text_is_written_as_a_number() {
        assert_eq!(ServiceCode::NONE.to_string(), "SC=0");
        assert_eq!(ServiceCode::from_bytes(*b"a b ").to_string(), format!("SC={}", 0x6120_6220));
        assert_eq!(ServiceCode::from_bytes(*b"    ").to_string(), format!("SC={}", 0x2020_2020));
        assert_eq!(ServiceCode::from_bytes(*b"abc\t").to_string(), format!("SC={}", 0x6162_6309));
    }

    #[test]
    fn what_is_not_a_service_code_is_refused() {
        assert_eq!("fdpz".parse::<ServiceCode>(), Err(ServiceCodeError::Prefix));
        for text in ["SC:", "SC:abcde", "SC:a b", "SC:é"] {
            assert_eq!(text.parse::<ServiceCode>(), Err(ServiceCodeError::Text), "{text}");
        }
        for text in ["SC=", "SC=x", "SC=+1", "SC=-1", "SC=4294967295", "SC=xFFFFFFFF", "SC=99999999999", "SC=1a"] {
            assert_eq!(text.parse::<ServiceCode>(), Err(ServiceCodeError::Number), "{text}");
        }
    }
}
