//! Figures that `timeous run --stats` prints when the program ends.

use std::net::SocketAddr;

use timeous::core::{Duration, Rate};

/// Figures of a destination.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    /// Number of datagrams that have left, and their bytes.
    pub(crate) sent: (u64, u64),
    /// Number of datagrams that were too old when their turn came.
    pub(crate) expired: u64,
    /// Number of datagrams that arrived, if the receiver reports.
    pub(crate) arrived: Option<u64>,
    /// Rate that the path gives the flow.
    pub(crate) rate: Option<Rate>,
    /// Smoothed round-trip time.
    pub(crate) rtt: Option<Duration>,
}

impl Figures {
    /// Formats them as a line.
    pub(crate) fn line(&self, program: &str, to: SocketAddr) -> String {
        let unknown = || "unknown".to_owned();
        let arrived = self.arrived.map_or_else(unknown, |arrived| arrived.to_string());
        let rate = self.rate.map_or_else(unknown, |rate| format!("{:.2} Mbit/s", rate.as_bps() as f64 / 1e6));
        let rtt = self.rtt.map_or_else(unknown, |rtt| format!("{:.1} ms", rtt.as_secs_f64() * 1e3));
        format!(
            "{program} to {to}: sent {}, expired {}, arrived {arrived}, rate {rate}, rtt {rtt}",
            self.sent.0, self.expired
        )
    }
}

/// Name of this program and its number, for messages.
pub(crate) fn program() -> String {
    let path = std::env::current_exe().unwrap_or_default();
    let name = path.file_name().map_or_else(|| "program".into(), |name| name.to_string_lossy());
    format!("{name}[{}]", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_all_figures_and_says_what_is_unknown() {
        let to = "192.0.2.1:5004".parse().unwrap();
        let figures = Figures {
            sent: (10, 12_000),
            expired: 2,
            arrived: Some(9),
            rate: Some(Rate::from_kbps(1_500)),
            rtt: Some(Duration::from_micros(40_500)),
        };
        let line = figures.line("iperf3[7]", to);
        assert_eq!(line, "iperf3[7] to 192.0.2.1:5004: sent 10, expired 2, arrived 9, rate 1.50 Mbit/s, rtt 40.5 ms");
        assert!(Figures::default().line("x[1]", to).ends_with("arrived unknown, rate unknown, rtt unknown"));
    }
}
