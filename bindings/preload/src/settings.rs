//! Settings that `timeous run` hands to the library, in one environment variable.

use timeous::core::units::{parse_duration, parse_rate};
use timeous::core::{Duration, Rate};

/// Environment variable with the settings, as `key=value` pairs with commas between them. `timeous run` checks them.
const VARIABLE: &str = "TIMEOUS_RUN";

/// Settings of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Settings {
    /// Maximum age of a datagram when it leaves.
    pub(crate) latency: Duration,
    /// Rate on paths without reports that the user vouches for (RFC 8085 §3.1.9).
    pub(crate) rate: Option<Rate>,
    /// First of the ports at which receivers are asked for reports.
    pub(crate) feedback_port: u16,
    /// Whether datagrams to and from this host itself are controlled, too.
    pub(crate) loopback: bool,
    /// Whether figures are printed when the program ends.
    pub(crate) stats: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            // That of interactive video (ITU-T G.114: 150 ms one way are good, 400 ms the limit). A higher value drops less
            // and delays more.
            latency: Duration::from_millis(200),
            rate: None,
            // Next to the port of streams, 6511.
            feedback_port: 6_512,
            loopback: false,
            stats: false,
        }
    }
}

impl Settings {
    /// Reads the environment.
    pub(crate) fn from_environment() -> Self {
        std::env::var(VARIABLE).map(|text| Self::parse(&text)).unwrap_or_default()
    }

    /// Parses the variable. What cannot be read keeps its default: the tool has checked it, and a library has nobody to tell.
    fn parse(text: &str) -> Self {
        let mut settings = Self::default();
        for pair in text.split(',') {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            match key {
                "latency" => settings.latency = parse_duration(value).unwrap_or(settings.latency),
                "rate" => settings.rate = parse_rate(value).ok(),
                "feedback-port" => settings.feedback_port = value.parse().unwrap_or(settings.feedback_port),
                "loopback" => settings.loopback = true,
                "stats" => settings.stats = true,
                _ => {}
            }
        }
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_is_read_and_others_keep_their_defaults() {
        assert_eq!(Settings::parse(""), Settings::default());
        let all = Settings::parse("latency=1.5s,rate=2M,feedback-port=7000,loopback,stats,unknown=1");
        let expected = Settings {
            latency: Duration::from_millis(1_500),
            rate: Some(Rate::from_kbps(2_000)),
            feedback_port: 7_000,
            loopback: true,
            stats: true,
        };
        assert_eq!(all, expected);
        assert_eq!(Settings::parse("latency=soon,feedback-port=x"), Settings::default());
    }
}
