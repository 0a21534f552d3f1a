//! Engine settings of a stream, from a client's request.

use std::sync::Arc;

use timeous_choice::dbat::{DropRule, Marking, Settings};
use timeous_choice::{Chain, Dbat, Dependencies, QueueLimit, named};
use timeous_core::{Duration, LateChoice, Priority, SubStream};
use timeous_engine::{Carrier, Ccid, DccpConfig, Sealing, ServiceCode, StreamConfig};
use timeous_ipc::messages::{Marked, Nanos, Policy, QueueLimit as Limit, StreamSpec};

/// Minimum of timers: shorter ones load the engine without use.
const LEAST: Duration = Duration::from_millis(100);
/// Maximum of timers: longer ones keep unused resources.
const MOST: Duration = Duration::from_secs(120);

/// Returns the engine settings for `spec`, with this protection.
pub(crate) fn stream_config(spec: &StreamSpec, sealing: Sealing) -> StreamConfig {
    let within = |time: Nanos, least: Duration, most: Duration| Duration::from(time).clamp(least, most);
    let dccp = DccpConfig {
        mps: (spec.mps as usize).clamp(DccpConfig::MIN_MPS, DccpConfig::default().mps),
        largest: Some((spec.mps as usize).max(DccpConfig::MIN_MPS)),
        fragments: true,
        connect_timeout: within(spec.connect_timeout, LEAST, MOST),
        keep_alive: spec.keep_alive.map(|time| within(time, LEAST, MOST)),
        silence: within(spec.silence, LEAST, MOST),
        // The RFC's value is the maximum.
        msl: within(spec.msl, Duration::ZERO, DccpConfig::default().msl),
        controller: spec.controller.map(Into::into),
        server_holds_timewait: spec.server_holds_timewait,
        reports: if spec.policy == Policy::Fifo { 1 } else { DccpConfig::REPORTS_FOR_DEADLINES },
        ..DccpConfig::default().with_ccids(&[Ccid::from_number(spec.ccid.into()).unwrap_or_default()])
    };
    let policy = spec.policy;
    StreamConfig {
        tcp: timeous_engine::TcpConfig::default(),
        local: spec.local,
        dccp,
        carrier: if spec.native { Carrier::Ip } else { Carrier::Udp },
        service: ServiceCode::from_bytes(spec.service),
        dccp_port: spec.dccp_port,
        slots: spec.slots,
        choice: Arc::new(move || choice(policy)),
        repair: spec.repair.map(Priority),
        sealing,
    }
}

/// Returns the late choice of that name: datagrams that cannot arrive in time or be decoded are dropped, except under
/// [`Policy::Fifo`].
fn choice(policy: Policy) -> Box<dyn LateChoice> {
    match policy {
        Policy::Fifo => Box::new(Chain::default()),
        Policy::Deadline => Box::new(named::deadline()),
        Policy::Age(limit) => Box::new(named::age(limit.into())),
        Policy::Dbat(dbat) => {
            let beyond = if dbat.only_marked { DropRule::OnlyMarked } else { DropRule::Excess };
            let least_delay = Duration::from(dbat.least_delay).min(MOST);
            let settings = Settings { beyond, least_delay, most: dbat.max_threshold, ..Settings::default() };
            let marking = match dbat.marked {
                Marked::Priority(least) => Marking::Priority(Priority(least)),
                Marked::Layers(last) => Marking::Layers(SubStream(last)),
            };
            Box::new(Dbat::chain(settings, marking))
        }
        Policy::Punctual => Box::new(named::punctual()),
        Policy::Dependencies => Box::new(Dependencies::default()),
        Policy::Layers => Box::new(named::layers()),
        Policy::Plan(weights) => Box::new(named::plan(weights.into_iter().flatten())),
        Policy::Frames(limit) => Box::new(named::frames(match limit {
            Limit::Deadlines => QueueLimit::Deadlines,
            Limit::Time(time) => QueueLimit::Time(time.into()),
            Limit::Packets(packets) => QueueLimit::Packets(packets as usize),
        })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression, found by comparing streams with and without a daemon: through the daemon, datagrams sent before a
    /// path change was known were late.
    #[test]
    fn a_stream_with_deadlines_hears_of_its_path_more_often_than_once_a_round_trip() {
        let reports = |policy| stream_config(&StreamSpec { policy, ..spec() }, Sealing::Local).dccp.reports;
        assert_eq!(reports(Policy::Fifo), 1);
        assert_eq!(reports(Policy::Layers), DccpConfig::REPORTS_FOR_DEADLINES);
        assert_eq!(reports(Policy::Deadline), DccpConfig::REPORTS_FOR_DEADLINES);
    }

    fn spec() -> StreamSpec {
        let time = Nanos::from(Duration::from_secs(1));
        StreamSpec {
            service: [0; 4],
            dccp_port: 1,
            ccid: 3,
            controller: None,
            local: None,
            native: false,
            slots: 64,
            mps: 1_200,
            connect_timeout: time,
            keep_alive: None,
            silence: time,
            msl: time,
            server_holds_timewait: true,
            policy: Policy::Fifo,
            repair: None,
        }
    }
}
