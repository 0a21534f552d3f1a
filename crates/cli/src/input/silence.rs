//! Silence of a source: its beginning and end are told once each.

use std::net::SocketAddr;

use timeous::clock;
use timeous::core::{Duration, Instant};

use crate::notice::tell;

/// Silence that is told. Chosen by us: longer than pauses of a live source; the user still watches.
const SILENT: Duration = Duration::from_secs(3);
/// The same, at most, for a source that pauses often.
const MOST_SILENT: Duration = Duration::from_secs(60);

/// Detector of silence of a source, or of one of its streams.
#[derive(Debug)]
pub(super) struct Silence {
    /// Name, as the subject of a message.
    name: String,
    /// Advice for a source that has never sent anything.
    advice: String,
    since: Instant,
    has_come: bool,
    is_silent: bool,
    /// Silence that is told next.
    after: Duration,
}

impl Silence {
    /// Creates a detector; `advice` is for a source that never sends.
    pub(super) fn new(name: String, advice: String) -> Self {
        Self { name, advice, since: clock::now(), has_come: false, is_silent: false, after: SILENT }
    }

    /// Detector for what is received at a UDP address.
    pub(super) fn at(name: String, local: SocketAddr, payload_type: Option<u8>) -> Self {
        let (ip, port) = (local.ip(), local.port());
        let to = match (ip.is_unspecified(), ip.is_ipv4()) {
            (true, true) => format!("UDP port {port} of an IPv4 address of this host"),
            (true, false) => format!("UDP port {port} of an IPv6 address of this host"),
            (false, _) if ip.is_multicast() => {
                format!("the group {local}, over the interface of this host's route to it (`ip route get {ip}`)")
            }
            (false, _) => format!("{local} by UDP"),
        };
        let with = payload_type.map_or(String::new(), |number| format!(" with payload type {number}"));
        Self::new(name, format!("is it running, and does it send to {to}{with}? A firewall may drop its packets, too"))
    }

    /// Detector for a pipe.
    pub(super) fn of_pipe() -> Self {
        Self::new("the source".to_owned(), "does the program that writes into the pipe run?".to_owned())
    }

    /// Silence that is told next.
    pub(super) fn after(&self) -> Duration {
        self.after
    }

    /// Time of the last data, or of the beginning.
    pub(super) fn since(&self) -> Instant {
        self.since
    }

    /// Tells of silence that has lasted long enough.
    pub(super) fn look(&mut self) {
        self.begin(clock::now()).into_iter().for_each(tell);
    }

    /// Notes data, and tells of the end of a silence.
    pub(super) fn end(&mut self) {
        self.come(clock::now()).into_iter().for_each(tell);
    }

    fn begin(&mut self, now: Instant) -> Option<String> {
        if self.is_silent || now.saturating_since(self.since) < self.after {
            return None;
        }
        self.is_silent = true;
        let told = format!("{} has sent nothing for {:.0} s", self.name, self.after.as_secs_f64());
        Some(if self.has_come { told } else { format!("{told}: {}", self.advice) })
    }

    fn come(&mut self, now: Instant) -> Option<String> {
        let silent = now.saturating_since(std::mem::replace(&mut self.since, now));
        let has_come = std::mem::replace(&mut self.has_come, true);
        if !std::mem::take(&mut self.is_silent) {
            return None;
        }
        let seconds = silent.as_secs_f64();
        if !has_come {
            return Some(format!("{} begins after {seconds:.1} s", self.name));
        }
        // A frame every five seconds is no silence.
        self.after = self.after.max((silent * 2).min(MOST_SILENT));
        Some(format!("{} goes on after {seconds:.1} s", self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets that come by another interface seemed not to be sent.
    #[test]
    fn a_multicast_group_is_told_with_its_interface() {
        let mut silence = Silence::at("the source".to_owned(), "239.1.2.3:5004".parse().unwrap(), None);
        let told = silence.begin(silence.since + SILENT).unwrap();
        assert!(told.contains("the group 239.1.2.3:5004") && told.contains("`ip route get 239.1.2.3`"), "{told}");
    }

    /// A source that never sent anything was never told of.
    #[test]
    fn silence_is_told_once_with_what_to_check_if_nothing_ever_came() {
        let mut silence = Silence::at("the source".to_owned(), "0.0.0.0:5004".parse().unwrap(), Some(96));
        let begin = silence.since;
        let at = |ms| begin + Duration::from_millis(ms);
        assert_eq!(silence.begin(at(2_900)), None);
        let told = silence.begin(at(3_000)).unwrap();
        assert!(told.starts_with("the source has sent nothing for 3 s: is it running"), "{told}");
        assert!(told.contains("UDP port 5004 of an IPv4 address of this host with payload type 96"), "{told}");
        assert_eq!(silence.begin(at(9_000)), None);
        assert_eq!(silence.come(at(9_500)).as_deref(), Some("the source begins after 9.5 s"));
        assert_eq!(silence.come(at(9_600)), None);
        assert_eq!(silence.begin(at(12_600)).as_deref(), Some("the source has sent nothing for 3 s"));
        assert_eq!(silence.come(at(14_600)).as_deref(), Some("the source goes on after 5.0 s"));
        // Pauses of this length are usual now.
        assert_eq!(silence.begin(at(24_500)), None);
        assert_eq!(silence.begin(at(24_600)).as_deref(), Some("the source has sent nothing for 10 s"));
    }
}
