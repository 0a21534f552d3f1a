//! What there is to see of the daemon at one instant: for `timeous top`, for metrics, and as JSON for scripts.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};
use timeous_cm::{FlowView, MacroflowView, Scheduling, Snapshot};
use timeous_core::{Duration, Instant};

use crate::store::Remembered;

/// The daemon, its clients, and the macroflows with their flows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct View {
    /// The daemon's version.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// When this was seen, in nanoseconds on the host's monotonic clock.
    pub at_ns: u64,
    /// Milliseconds since the daemon began.
    pub uptime_ms: u64,
    /// Who uses it.
    pub clients: Vec<Client>,
    /// By number.
    pub macroflows: Vec<Macroflow>,
    /// What watches over itself.
    pub health: Health,
}

/// What became of the daemon's own side work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    /// Clients that were disconnected since they broke the rules.
    pub violations_total: u64,
    /// How many paths are remembered.
    pub paths_remembered: u64,
    /// How often the path memory could not be written.
    pub path_write_failures_total: u64,
    /// Events that the qlog had no room for.
    pub qlog_lost_total: u64,
}

/// A process that uses the daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Client {
    /// Its number, as flows name it. 0 is the daemon's own engine.
    pub id: u64,
    /// The process.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
}

/// Flows to one destination, which share what is known of the path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Macroflow {
    /// Its number.
    pub id: u64,
    /// The host that the flows go to.
    pub address: IpAddr,
    /// The code point of their packets.
    pub dscp: u8,
    /// Whose flows they are; none: the host's own, whose feedback the host itself has seen.
    pub user: Option<u32>,
    /// The congestion controller.
    pub controller: String,
    /// Whose turn it is: `roundRobin`, `weighted` or `deadline`.
    pub scheduling: String,
    /// Bytes that may be outstanding.
    pub window_bytes: u64,
    /// The slow start threshold, once there is one.
    pub threshold_bytes: Option<u64>,
    /// Bytes that are outstanding.
    pub outstanding_bytes: u64,
    /// Bits a second that may be sent.
    pub rate_bps: u64,
    /// Smoothed round trip, once there was one.
    pub srtt_us: Option<u64>,
    /// Its mean deviation.
    pub rttvar_us: u64,
    /// The least round trip.
    pub min_rtt_us: Option<u64>,
    /// The share of packets lost of late, in parts per million.
    pub loss_ppm: u32,
    /// Grants given and not yet used.
    pub grants: u32,
    /// Requests that wait for a grant.
    pub waiting: u64,
    /// Losses that were answered, those of a window as one.
    pub losses_total: u64,
    /// Marks that were answered, those of a window as one.
    pub marks_total: u64,
    /// Timeouts that were answered.
    pub timeouts_total: u64,
    /// What its flows did, closed ones included.
    #[serde(flatten)]
    pub totals: Totals,
    /// The flows that are open.
    pub flows: Vec<Flow>,
}

/// What was sent, and what became of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// Bytes sent.
    pub sent_bytes_total: u64,
    /// Bytes that arrived.
    pub acked_bytes_total: u64,
    /// Bytes that were lost.
    pub lost_bytes_total: u64,
    /// Updates that were refused because they cannot be true.
    pub refused_total: u64,
}

/// One flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Flow {
    /// Its number.
    pub id: u64,
    /// Whose it is.
    pub client: u64,
    /// Its share where the scheduler goes by weights.
    pub weight: u32,
    /// Its largest packet.
    pub mtu_bytes: u64,
    /// Its bytes that are outstanding.
    pub outstanding_bytes: u64,
    /// Its requests that wait.
    pub waiting: u32,
    /// Its grants not yet used.
    pub grants: u32,
    /// Its own address, if it told.
    pub local: Option<SocketAddr>,
    /// Its peer's address, if it told.
    pub remote: Option<SocketAddr>,
    /// What it did.
    #[serde(flatten)]
    pub totals: Totals,
}

/// What is remembered of a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Path {
    /// The host.
    pub address: IpAddr,
    /// The code point of the packets.
    pub dscp: u8,
    /// Whose flows found it out; none: the host's own.
    pub user: Option<u32>,
    /// Bytes that could be outstanding.
    pub window_bytes: u64,
    /// The slow start threshold, if there was one.
    pub threshold_bytes: Option<u64>,
    /// Smoothed round trip.
    pub srtt_us: u64,
    /// Its mean deviation.
    pub rttvar_us: u64,
    /// The least round trip.
    pub min_rtt_us: u64,
    /// Bits a second that could be sent.
    pub rate_bps: u64,
    /// The share of packets lost, in parts per million.
    pub loss_ppm: u32,
    /// Seconds since it was last seen.
    pub age_seconds: u64,
}

impl From<&Remembered> for Path {
    fn from(remembered: &Remembered) -> Self {
        let Remembered { destination, learnt, age } = remembered;
        Self {
            address: destination.addr,
            dscp: destination.dscp,
            user: destination.user.map(|user| user.0),
            window_bytes: learnt.window,
            threshold_bytes: learnt.ssthresh,
            srtt_us: learnt.srtt.as_micros(),
            rttvar_us: learnt.rttvar.as_micros(),
            min_rtt_us: learnt.min_rtt.as_micros(),
            rate_bps: learnt.rate.as_bps(),
            loss_ppm: learnt.loss_ppm,
            age_seconds: age.as_millis() / 1_000,
        }
    }
}

impl View {
    /// What the Congestion Manager shows. The rest is for the daemon to fill in.
    pub fn of(snapshot: &Snapshot, now: Instant, since: Instant) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            at_ns: now.as_nanos(),
            uptime_ms: now.saturating_since(since).as_millis(),
            macroflows: snapshot.macroflows.iter().map(Macroflow::from).collect(),
            ..Self::default()
        }
    }

    /// What a user may see, see [`sees`].
    #[must_use]
    pub fn for_user(mut self, uid: u32) -> Self {
        self.clients.retain(|client| sees(uid, Some(client.uid)));
        self.macroflows.retain(|macroflow| sees(uid, macroflow.user));
        self
    }
}

/// Whether a user may see what belongs to `owner`: his own, but root and the daemon's own user see everything. What has no
/// owner is the daemon's: streams that it runs for others are among it.
pub fn sees(uid: u32, owner: Option<u32>) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw() || owner == Some(uid)
}

impl From<&MacroflowView> for Macroflow {
    fn from(view: &MacroflowView) -> Self {
        let MacroflowView { destination, state, answered, .. } = view;
        let scheduling = match view.scheduling {
            Scheduling::RoundRobin => "roundRobin",
            Scheduling::Weighted => "weighted",
            Scheduling::Deadline => "deadline",
        };
        Self {
            id: view.id.as_u64(),
            address: destination.addr,
            dscp: destination.dscp,
            user: destination.user.map(|user| user.0),
            controller: view.controller.to_owned(),
            scheduling: scheduling.to_owned(),
            window_bytes: state.window,
            threshold_bytes: view.threshold,
            outstanding_bytes: state.outstanding,
            rate_bps: state.rate.as_bps(),
            srtt_us: state.srtt.map(Duration::as_micros),
            rttvar_us: state.rttvar.as_micros(),
            min_rtt_us: state.min_rtt.map(Duration::as_micros),
            loss_ppm: state.loss_ppm,
            grants: view.grants,
            waiting: view.waiting,
            losses_total: answered.losses,
            marks_total: answered.marks,
            timeouts_total: answered.timeouts,
            totals: Totals {
                sent_bytes_total: view.sent,
                acked_bytes_total: view.acked,
                lost_bytes_total: view.lost,
                refused_total: view.refused,
            },
            flows: view.flows.iter().map(Flow::from).collect(),
        }
    }
}

impl From<&FlowView> for Flow {
    fn from(view: &FlowView) -> Self {
        Self {
            id: view.id.as_u64(),
            client: view.client.as_u64(),
            weight: view.weight,
            mtu_bytes: view.mtu,
            outstanding_bytes: view.outstanding,
            waiting: view.waiting,
            grants: view.grants,
            local: view.local,
            remote: view.remote,
            totals: Totals {
                sent_bytes_total: view.sent,
                acked_bytes_total: view.acked,
                lost_bytes_total: view.lost,
                refused_total: view.refused,
            },
        }
    }
}

#[cfg(test)]
mod tests;
