//! Quantities as people write them: `1.5M`, `40ms`, `64k`, `2%`.

use crate::time::{Duration, Rate};

/// What is wrong with a quantity that somebody wrote.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// No number, or a unit that is not known.
    #[error("'{given}' is not {wanted}")]
    NotUnderstood {
        /// What was written.
        given: String,
        /// What was wanted, with examples.
        wanted: &'static str,
    },
    /// A number that makes no sense there.
    #[error("'{given}' is out of range: {wanted}")]
    OutOfRange {
        /// What was written.
        given: String,
        /// What was wanted, with examples.
        wanted: &'static str,
    },
}

const RATE: &str = "a rate such as 800k, 1.5M or 1000000 (bits per second)";
const DURATION: &str = "a time such as 120ms, 2s, 500us, or a plain number of milliseconds";
const BYTES: &str = "a number of bytes such as 1500, 64k or 2M";
const SHARE: &str = "a share such as 2%, 0.5% or 0.02, from 0 to 1";

/// Reads a rate: a number of bits per second with `k`, `M` or `G`, optionally followed by `bit/s` or `bps`.
///
/// ```
/// use timeous_core::{Rate, units::parse_rate};
/// assert_eq!(parse_rate("1.5M"), Ok(Rate::from_kbps(1_500)));
/// assert!(parse_rate("fast").is_err());
/// ```
pub fn parse_rate(text: &str) -> Result<Rate, UnitError> {
    let bare = text.strip_suffix("bit/s").or_else(|| text.strip_suffix("bps")).unwrap_or(text);
    Ok(Rate::from_bps(scaled(bare, text, RATE)? as u64))
}

/// Reads a time: a number with `us`, `ms`, `s` or `min`; without a unit it is milliseconds, as SRT has it.
///
/// ```
/// use timeous_core::{Duration, units::parse_duration};
/// assert_eq!(parse_duration("0.3s"), Ok(Duration::from_millis(300)));
/// assert_eq!(parse_duration("120"), Ok(Duration::from_millis(120)));
/// ```
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    const UNITS: [(&str, f64); 5] = [("us", 1e-6), ("ms", 1e-3), ("min", 60.0), ("s", 1.0), ("", 1e-3)];
    let text = text.trim();
    let number = |(unit, scale): &(&str, f64)| Some((text.strip_suffix(unit)?.trim(), *scale));
    let Some((digits, scale)) = UNITS.iter().find_map(number) else {
        return Err(UnitError::NotUnderstood { given: text.to_owned(), wanted: DURATION });
    };
    Ok(Duration::from_secs_f64(non_negative(digits, text, DURATION)? * scale))
}

/// Reads a number of bytes: with `k`, `M` or `G` for thousands of them.
pub fn parse_bytes(text: &str) -> Result<u64, UnitError> {
    let bare = text.strip_suffix('B').unwrap_or(text);
    Ok(scaled(bare, text, BYTES)? as u64)
}

/// Reads a share: per cent with `%`, else a number from 0 to 1.
pub fn parse_share(text: &str) -> Result<f64, UnitError> {
    let share = match text.trim().strip_suffix('%') {
        Some(percent) => non_negative(percent.trim(), text, SHARE)? / 100.0,
        None => non_negative(text.trim(), text, SHARE)?,
    };
    if share > 1.0 {
        return Err(UnitError::OutOfRange { given: text.to_owned(), wanted: SHARE });
    }
    Ok(share)
}

fn scaled(bare: &str, given: &str, wanted: &'static str) -> Result<f64, UnitError> {
    let bare = bare.trim();
    let (digits, scale) = match bare.char_indices().last() {
        Some((at, 'k' | 'K')) => (&bare[..at], 1e3),
        Some((at, 'M' | 'm')) => (&bare[..at], 1e6),
        Some((at, 'G' | 'g')) => (&bare[..at], 1e9),
        _ => (bare, 1.0),
    };
    Ok((non_negative(digits.trim(), given, wanted)? * scale).round())
}

fn non_negative(digits: &str, given: &str, wanted: &'static str) -> Result<f64, UnitError> {
    let number: f64 = digits.parse().map_err(|_| UnitError::NotUnderstood { given: given.to_owned(), wanted })?;
    if !number.is_finite() || number < 0.0 {
        return Err(UnitError::OutOfRange { given: given.to_owned(), wanted });
    }
    Ok(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates() {
        assert_eq!(parse_rate("800k"), Ok(Rate::from_kbps(800)));
        assert_eq!(parse_rate("2 Mbit/s"), Ok(Rate::from_kbps(2_000)));
        assert_eq!(parse_rate("1000000bps"), Ok(Rate::from_kbps(1_000)));
        assert!(matches!(parse_rate("-1k"), Err(UnitError::OutOfRange { .. })));
        assert!(matches!(parse_rate("k"), Err(UnitError::NotUnderstood { .. })));
    }

    #[test]
    fn times() {
        assert_eq!(parse_duration("40ms"), Ok(Duration::from_millis(40)));
        assert_eq!(parse_duration("1.5 s"), Ok(Duration::from_millis(1_500)));
        assert_eq!(parse_duration("250us"), Ok(Duration::from_micros(250)));
        assert_eq!(parse_duration("2min"), Ok(Duration::from_secs(120)));
        assert!(parse_duration("soon").is_err());
        assert!(parse_duration("nan").is_err());
    }

    #[test]
    fn bytes_and_shares() {
        assert_eq!(parse_bytes("64k"), Ok(64_000));
        assert_eq!(parse_bytes("1500B"), Ok(1_500));
        assert_eq!(parse_share("2%"), Ok(0.02));
        assert_eq!(parse_share("0.5"), Ok(0.5));
        assert!(parse_share("150%").is_err());
    }
}
