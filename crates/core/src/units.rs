//! Parser of rates, times, sizes and shares as people write them: `1.5M`, `40ms`, `64k`, `1%`.

use std::ops::RangeInclusive;

use crate::time::{Duration, Rate};

/// Error: unreadable quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {wanted}")]
pub struct UnitError {
    text: String,
    wanted: &'static str,
}

impl UnitError {
    /// Creates the error for `text`, where `wanted`, a description with an example, was expected.
    pub fn new(text: &str, wanted: &'static str) -> Self {
        Self { text: text.to_owned(), wanted }
    }
}

/// Parses a rate in bits per second: `400k`, `1.5M`, `1.5Mbit/s`, `2Gbps`. Prefixes are decimal.
///
/// ```
/// use timeous_core::{Rate, units::parse_rate};
/// assert_eq!(parse_rate("1.5M"), Ok(Rate::from_kbps(1_500)));
/// ```
pub fn parse_rate(text: &str) -> Result<Rate, UnitError> {
    let wanted = "a rate such as 400k, 1.5M or 1G (bits per second)";
    let (number, unit) = split(text);
    let prefix = ["bit/s", "bps", "bit"].iter().find_map(|suffix| unit.strip_suffix(suffix)).unwrap_or(unit);
    let scale = match prefix {
        "" => 1,
        "k" | "K" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        _ => return Err(UnitError::new(text, wanted)),
    };
    scaled(number, scale).map(Rate::from_bps).ok_or_else(|| UnitError::new(text, wanted))
}

/// Parses a duration: `250us`, `40ms`, `1.5s`, `2min`. Zero needs no unit.
///
/// ```
/// use timeous_core::{Duration, units::parse_duration};
/// assert_eq!(parse_duration("40ms"), Ok(Duration::from_millis(40)));
/// assert!(timeous_core::units::parse_duration("40").is_err(), "of what?");
/// ```
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    let wanted = "a time such as 250us, 120ms, 1.5s or 2min";
    let (number, unit) = split(text);
    let scale = match unit {
        "ns" => 1,
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "" if scaled(number, 1) == Some(0) => 1,
        _ => return Err(UnitError::new(text, wanted)),
    };
    scaled(number, scale).map(Duration::from_nanos).ok_or_else(|| UnitError::new(text, wanted))
}

/// Parses a duration from `least` to `most`, as people write these.
///
/// ```
/// use timeous_core::{Duration, units::parse_duration_within};
/// assert_eq!(parse_duration_within("40ms", "1us", "1h"), Ok(Duration::from_millis(40)));
/// assert_eq!(parse_duration_within("100h", "1us", "1h").unwrap_err(), "use a time from 1us to 1h");
/// ```
///
/// # Errors
/// The text is no duration, or one beyond the bounds.
pub fn parse_duration_within(text: &str, least: &str, most: &str) -> Result<Duration, String> {
    within(parse_duration(text), parse_duration(least)..=parse_duration(most), || {
        format!("use a time from {least} to {most}")
    })
}

/// Parses a rate from `least` to `most`, as people write these.
///
/// ```
/// use timeous_core::{Rate, units::parse_rate_within};
/// assert_eq!(parse_rate_within("3M", "10k", "1G"), Ok(Rate::from_kbps(3_000)));
/// assert_eq!(parse_rate_within("0", "10k", "1G").unwrap_err(), "use a rate from 10k to 1G");
/// ```
///
/// # Errors
/// The text is no rate, or one beyond the bounds.
pub fn parse_rate_within(text: &str, least: &str, most: &str) -> Result<Rate, String> {
    within(parse_rate(text), parse_rate(least)..=parse_rate(most), || format!("use a rate from {least} to {most}"))
}

fn within<T: Copy + PartialOrd>(
    value: Result<T, UnitError>,
    bounds: RangeInclusive<Result<T, UnitError>>,
    beyond: impl Fn() -> String,
) -> Result<T, String> {
    let value = value.map_err(|error| error.to_string())?;
    let is_within = bounds.start().as_ref().is_ok_and(|least| value >= *least)
        && bounds.end().as_ref().is_ok_and(|most| value <= *most);
    if is_within { Ok(value) } else { Err(beyond()) }
}

/// Parses a size in bytes: `1500`, `64k`, `1.5MB` (decimal), `64Ki`, `1MiB` (binary).
///
/// ```
/// assert_eq!(timeous_core::units::parse_bytes("64k"), Ok(64_000));
/// assert_eq!(timeous_core::units::parse_bytes("64KiB"), Ok(65_536));
/// ```
pub fn parse_bytes(text: &str) -> Result<u64, UnitError> {
    let wanted = "a size such as 1500, 64k, 64Ki or 1M (bytes)";
    let (number, unit) = split(text);
    let scale = match unit.strip_suffix('B').unwrap_or(unit) {
        "" => 1,
        "k" | "K" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "Ki" | "ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        _ => return Err(UnitError::new(text, wanted)),
    };
    scaled(number, scale).ok_or_else(|| UnitError::new(text, wanted))
}

/// Parses a share from 0 to 1: `1%`, `0.01`. A bare `1` is ambiguous and refused.
///
/// ```
/// assert_eq!(timeous_core::units::parse_share("1%"), Ok(0.01));
/// assert_eq!(timeous_core::units::parse_share("0.25"), Ok(0.25));
/// assert!(timeous_core::units::parse_share("1").is_err(), "one percent, or all?");
/// ```
pub fn parse_share(text: &str) -> Result<f64, UnitError> {
    let error = || UnitError::new(text, "a share such as 1% or 0.01, from 0% to 100%");
    let text = text.trim();
    let number = text.strip_suffix('%').map(str::trim_end).unwrap_or(text);
    let value: f64 = number.parse().map_err(|_| error())?;
    let ambiguous = number == text && value != 0.0 && !number.contains('.');
    let share = if number == text { value } else { value / 100.0 };
    if ambiguous || !(0.0..=1.0).contains(&share) {
        return Err(error());
    }
    Ok(share)
}

/// Splits a quantity into number and unit.
fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

/// Multiplies a decimal number by `scale` and rounds it; `None` if it is no number or too large.
fn scaled(number: &str, scale: u64) -> Option<u64> {
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(scale);
    }
    let value = number.parse::<f64>().ok()? * scale as f64;
    // 2^53, above which a float does not represent every integer.
    (value < 9_007_199_254_740_992.0).then(|| value.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_with_and_without_their_unit() {
        for text in ["1500k", "1.5M", "1.5 Mbit/s", "1500000", "1.5Mbps", "1500 kbit"] {
            assert_eq!(parse_rate(text), Ok(Rate::from_kbps(1_500)), "{text}");
        }
        for text in ["", "M", "-1M", "1,5M", "1.5m", "fast", "1.5MB", "99999999999G", "1..5M"] {
            assert!(parse_rate(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_need_a_unit_unless_they_are_zero() {
        assert_eq!(parse_duration("0.1s"), Ok(Duration::from_millis(100)));
        assert_eq!(parse_duration("1.5us"), Ok(Duration::from_nanos(1_500)));
        assert_eq!(parse_duration("2min"), Ok(Duration::from_secs(120)));
        assert_eq!(parse_duration("1.5 s"), Ok(Duration::from_millis(1_500)));
        assert_eq!(parse_duration("0"), Ok(Duration::ZERO));
        for text in ["", "ms", "5", "-5ms", "5m", "1e3s", "soon", "nan"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_decimal_or_binary_as_they_say() {
        for (text, bytes) in [("1500B", 1_500), ("64k", 64_000), ("1.5 MB", 1_500_000), ("1MiB", 1 << 20)] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["", "k", "-1", "64kb", "1e3"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_error_says_what_was_given_and_what_is_wanted() {
        let error = parse_rate("fast").unwrap_err();
        assert_eq!(error.to_string(), "\"fast\" is not a rate such as 400k, 1.5M or 1G (bits per second)");
    }

    #[test]
    fn shares_stay_between_nothing_and_all() {
        assert_eq!(parse_share("100%"), Ok(1.0));
        assert_eq!(parse_share("1.0"), Ok(1.0));
        assert_eq!(parse_share("0"), Ok(0.0));
        for text in ["101%", "-1%", "1.5", "nan", "nan%", "%", "1", ""] {
            assert!(parse_share(text).is_err(), "{text}");
        }
    }
}
