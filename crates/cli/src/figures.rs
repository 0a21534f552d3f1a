//! Number formatting for people: three digits and a unit.

use timeous::core::Duration;

/// Formats with a decimal prefix: `1.50M`, `48.0k`, `999`.
pub(crate) fn scaled(value: u64) -> String {
    let mut value = value as f64;
    for prefix in ["", "k", "M", "G", "T"] {
        // Values that would round to four digits take the next prefix.
        if value < 999.5 {
            return if prefix.is_empty() { format!("{value:.0}") } else { format!("{}{prefix}", three_digits(value)) };
        }
        value /= 1e3;
    }
    format!("{value:.0}P")
}

/// Formats microseconds: `350us`, `40.5ms`, `1.20s`.
pub(crate) fn micros(value: u64) -> String {
    match value as f64 {
        value if value < 999.5 => format!("{value:.0}us"),
        value if value < 999_500.0 => format!("{}ms", three_digits(value / 1e3)),
        value => format!("{}s", three_digits(value / 1e6)),
    }
}

/// Formats parts per million as a percentage: `1.25%`.
pub(crate) fn ppm(value: u32) -> String {
    format!("{}%", three_digits(f64::from(value) / 1e4))
}

/// Formats an age: `42s`, `3min`, `5h`, `2d`.
pub(crate) fn age(age: Duration) -> String {
    match age.as_millis() / 1_000 {
        seconds if seconds < 120 => format!("{seconds}s"),
        seconds if seconds < 7_200 => format!("{}min", seconds / 60),
        seconds if seconds < 172_800 => format!("{}h", seconds / 3_600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

fn three_digits(value: f64) -> String {
    let decimals = match value {
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_a_unit() {
        let cases = [
            (0, "0"),
            (999, "999"),
            (1_000, "1.00k"),
            (9_994, "9.99k"),
            (9_995, "10.0k"),
            (48_000, "48.0k"),
            (999_499, "999k"),
            (999_500, "1.00M"),
            (1_500_000, "1.50M"),
            (25_000_000_000, "25.0G"),
        ];
        for (value, text) in cases {
            assert_eq!(scaled(value), text, "{value}");
        }
        assert_eq!(scaled(u64::MAX), "18447P");
    }

    #[test]
    fn times_shares_and_ages() {
        assert_eq!(
            [0, 350, 1_000, 40_500, 999_600, 1_200_000].map(micros),
            ["0us", "350us", "1.00ms", "40.5ms", "1.00s", "1.20s"]
        );
        assert_eq!([0, 12_500, 1_000_000].map(ppm), ["0.00%", "1.25%", "100%"]);
        assert_eq!(
            [5, 119, 120, 7_200, 200_000].map(|s| age(Duration::from_secs(s))),
            ["5s", "119s", "2min", "2h", "2d"]
        );
    }
}
