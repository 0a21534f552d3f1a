//! TCP variants: ns-2's, as in the paper, or today's; and single differences in TCP or setup, to
//! find their effect.

use timeous::core::Duration;
use timeous_cm::controller::initial;
use timeous_cm::{Controller, Kind, Manager, NewReno};
use timeous_host::sources::WebTraffic;
use timeous_tcp::receiver::DelayedAck;
use timeous_tcp::{Config as TcpConfig, EcnMode, LossDetection};

use super::super::goddard::message::PACKET;
use super::setup::web;

/// Largest window of ns-2's TCP, in segments (`window_`).
const WINDOW: usize = 20;
/// Segment size of ns-2's full TCP, in bytes (`segsize_`).
const SEGMENT: u16 = 536;

/// Index of the 240 kbit/s level: less than a fair share.
const FIRST: Option<usize> = Some(2);
const BEGINS: &str = "the stream begins at 240 kbit/s, not at what a pair tells";
const WINDOWS: &str = "windows of 20 segments";
const NO_SACK: &str = "no SACK, RACK, probes; starts with 2";
const TODAY: &str = "today's TCP";
const NS2_TCP: &str = "ns-2's TCP: no SACK …, windows of 20 of 536 bytes";
const NS2_KB: &str = "ns-2's TCP, packets of 1 kB";
const NS2_ALL: &str = "all of ns-2's and Goddard's";
const AS_TFRC: &str = "TCP begins with as many packets as TFRC";

/// Differences from today's TCP and our setup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct SetupDifference {
    /// Every TCP has a window of twenty segments (`window_`).
    pub(crate) window: bool,
    /// Every TCP has segments of 536 bytes (`segsize_`).
    pub(crate) segments: bool,
    /// Every TCP follows RFC 6582, without SACK, RACK and tail loss probes, starts with two
    /// segments (`windowInit_`) and acknowledges each one (`segsperack_`).
    pub(crate) reno: bool,
    /// Data that finds TCP's send buffer full is late rather than lost: ns-2's `TcpApp` records
    /// writes before its agent has accepted them, and its peer counts bytes. So the player gets its
    /// oldest missing data, without a gap.
    pub(crate) shifted: bool,
    /// Over TCP the player counts no losses.
    pub(crate) blind: bool,
    /// After an empty buffer the packet pair alone decides the rate, not the received rate.
    pub(crate) by_pair: bool,
    /// The streamer sends on while the link is probed (Goddard's source; the paper's text says
    /// otherwise).
    pub(crate) sends_on: bool,
    /// Factor on the number of web users.
    pub(crate) web: u32,
    /// Level at which the stream begins, regardless of the packet pair.
    pub(crate) first: Option<usize>,
    /// The player never asks for a higher level.
    pub(crate) content: bool,
    /// Data in flight occupies the stream's send buffer over TFRC, too, as with TCP.
    pub(crate) counts_flight: bool,
    /// Every TCP starts with TFRC's initial window (RFC 3390).
    pub(crate) as_tfrc: bool,
    /// DBAT's send buffer is limited by its thresholds alone: the paper sets 64 packets "for TCP and TFRC based streaming".
    pub(crate) own_buffer: bool,
}

impl SetupDifference {
    /// Today's TCP without any difference.
    pub(crate) const TODAY: Self = Self {
        window: false,
        segments: false,
        reno: false,
        shifted: false,
        blind: false,
        by_pair: false,
        sends_on: false,
        web: 1,
        first: None,
        content: false,
        counts_flight: false,
        as_tfrc: false,
        own_buffer: false,
    };

    /// ns-2's full TCP with its defaults, as in the paper (§4).
    pub(crate) const PAPER: Self = Self { window: true, segments: true, reno: true, ..Self::TODAY };
    /// The same with packets of 1 kB, in which the paper counts the send buffer.
    pub(crate) const PAPER_KB: Self = Self { segments: false, ..Self::PAPER };
    /// The paper's TCP with further properties of simulator and streamer.
    pub(crate) const NS2_ALL: Self = Self { shifted: true, sends_on: true, ..Self::PAPER };

    /// [`PAPER_KB`](Self::PAPER_KB), with DBAT's send buffer limited by its thresholds alone.
    pub(crate) const OWN_BUFFER: Self = Self { own_buffer: true, ..Self::PAPER_KB };

    /// Candidate causes of the paper's buffering time over TCP, alone and combined.
    pub(crate) const OF_TCP: [(&'static str, Self); 17] = {
        let none = Self::TODAY;
        let shifted = Self { shifted: true, ..none };
        [
            (TODAY, none),
            (WINDOWS, Self { window: true, ..none }),
            ("segments of 536 bytes", Self { segments: true, ..none }),
            (NO_SACK, Self { reno: true, ..none }),
            (NS2_TCP, Self::PAPER),
            (NS2_KB, Self::PAPER_KB),
            ("over TCP the player counts no losses", Self { blind: true, ..none }),
            ("empty buffer: the rate by the pair alone", Self { by_pair: true, ..none }),
            ("the streamer sends on during a probe", Self { sends_on: true, ..none }),
            ("three times the web's users", Self { web: 3, ..none }),
            (BEGINS, Self { first: FIRST, ..none }),
            (AS_TFRC, Self { as_tfrc: true, ..none }),
            ("TcpApp: refused is late, not lost", shifted),
            ("TcpApp, windows of 20 segments", Self { window: true, ..shifted }),
            ("TcpApp, no SACK, RACK, probes", Self { reno: true, ..shifted }),
            (NS2_ALL, Self::NS2_ALL),
            ("ns-2's TCP, packets of 1 kB; DBAT's send buffer by its thresholds", Self::OWN_BUFFER),
        ]
    };

    /// Candidate causes of TFRC's stream being later and less complete than TCP's.
    pub(crate) const OF_ORDER: [(&'static str, Self); 14] = {
        let none = Self::TODAY;
        let few = Self { first: FIRST, content: true, ..none };
        [
            (TODAY, none),
            (BEGINS, Self { first: FIRST, ..none }),
            ("the player never asks for more", Self { content: true, ..none }),
            ("both", few),
            ("what is under way fills TFRC's send buffer, too", Self { counts_flight: true, ..none }),
            (AS_TFRC, Self { as_tfrc: true, ..none }),
            ("TcpApp: refused is late, not lost", Self { shifted: true, ..none }),
            ("TcpApp, and under way fills TFRC's buffer", Self { shifted: true, counts_flight: true, ..none }),
            (NO_SACK, Self { reno: true, ..none }),
            (WINDOWS, Self { window: true, ..none }),
            ("windows of 20 segments, of 536 bytes each", Self { window: true, segments: true, ..none }),
            (NS2_TCP, Self::PAPER),
            (NS2_KB, Self::PAPER_KB),
            (NS2_ALL, Self::NS2_ALL),
        ]
    };

    /// Returns the configuration of every TCP.
    pub(crate) fn tcp(self) -> TcpConfig {
        let mss = if self.segments { SEGMENT } else { PACKET as u16 };
        let today = TcpConfig { mss, timestamps: false, ecn: EcnMode::Off, ..TcpConfig::default() };
        let receive_buffer = if self.window { WINDOW * usize::from(mss) } else { today.receive_buffer };
        let today = TcpConfig { receive_buffer, window_scaling: !self.window, ..today };
        if !self.reno {
            return today;
        }
        let delayed_ack = DelayedAck { delay: Duration::ZERO, ..DelayedAck::default() };
        let loss_detection = LossDetection::DupThresh;
        TcpConfig { sack: false, loss_detection, tail_loss_probe: false, delayed_ack, ..today }
    }

    /// Returns the manager of every TCP's host.
    pub(crate) fn manager(self) -> Manager {
        fn two(mtu: u64) -> Box<dyn Controller> {
            Box::new(NewReno::new(mtu).with_initial_window(2 * mtu))
        }
        fn as_tfrc(mtu: u64) -> Box<dyn Controller> {
            Box::new(NewReno::new(mtu).with_initial_window(initial::rfc3390(mtu)))
        }
        let make = match self {
            Self { reno: true, .. } => two,
            Self { as_tfrc: true, .. } => as_tfrc,
            _ => return Kind::NewReno.into(),
        };
        Manager::new(make)
    }

    /// Returns the web traffic beside the stream.
    pub(crate) fn web(self) -> WebTraffic {
        let web = web();
        WebTraffic { users: web.users * self.web, ..web }
    }
}
