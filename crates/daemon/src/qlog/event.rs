//! Events of the Congestion Manager as records of a qlog.

use std::io;
use std::time::{Duration, SystemTime};

use qlog::events::quic::{CongestionStateUpdated, CongestionStateUpdatedTrigger, RecoveryMetricsUpdated};
use qlog::events::{Event, EventData, QUIC_URI};
use qlog::{
    CommonFields, QLOGFILESEQ_URI, QlogSeq, ReferenceTime, TimeFormat, TraceSeq, VantagePoint, VantagePointType,
};
use serde::Serialize;
use serde_json::{Value, json};
use timeous_cm::{Destination, Happening, Loss, Traced};
use timeous_core::{Arrived, Instant, PathState, Rate};

use crate::wall::WallTime;

/// URI of our event schema, as in qlog.
pub const NAMESPACE: &str = "https://github.com/timeous/timeous/qlog#timeous-1";

/// Header of a file, with its time origin.
pub(super) struct Header {
    zero: Instant,
    wall: WallTime,
}

impl Header {
    pub(super) fn new(zero: Instant, wall: WallTime) -> Self {
        Self { zero, wall }
    }

    /// Returns the milliseconds since the qlog began.
    pub(super) fn time(&self, at: Instant) -> f64 {
        at.saturating_since(self.zero).as_micros() as f64 / 1e3
    }

    pub(super) fn record(&self) -> io::Result<Vec<u8>> {
        let wall = SystemTime::UNIX_EPOCH + Duration::from_nanos(self.wall.elapsed().as_nanos());
        let trace = TraceSeq {
            title: Some("Timeous: Congestion Manager".to_owned()),
            description: None,
            common_fields: Some(CommonFields {
                reference_time: ReferenceTime::new_monotonic(Some(wall)),
                time_format: Some(TimeFormat::RelativeToEpoch),
                ..CommonFields::default()
            }),
            // The manager is no end of a connection: it handles the sending side of many.
            vantage_point: Some(VantagePoint {
                name: Some("timeous".into()),
                ty: VantagePointType::Unknown,
                flow: None,
            }),
            event_schemas: vec![QUIC_URI.to_owned(), NAMESPACE.to_owned()],
        };
        framed(&QlogSeq {
            file_schema: QLOGFILESEQ_URI.to_owned(),
            serialization_format: "JSON-SEQ".to_owned(),
            title: None,
            description: None,
            trace,
        })
    }
}

/// Frames a record (RFC 7464 §2.2): a record separator, the JSON text, a line feed.
fn framed(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut record = vec![0x1e];
    serde_json::to_writer(&mut record, value)?;
    record.push(b'\n');
    Ok(record)
}

pub(super) enum Record {
    Schema(Box<Event>),
    Own(Own),
}

/// Event of our own namespace.
#[derive(Serialize)]
pub(super) struct Own {
    time: f64,
    name: &'static str,
    data: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    group_id: Option<String>,
}

impl Record {
    pub(super) fn of(header: &Header, traced: &Traced) -> Self {
        let time = header.time(traced.at);
        let group = traced.macroflow.as_u64().to_string();
        let flow = traced.flow.map(|flow| flow.as_u64());
        let own = |name, data| Self::Own(Own { time, name, data, group_id: Some(group.clone()) });
        match &traced.what {
            Happening::Metrics { state, threshold } => {
                schema(time, group, EventData::QuicMetricsUpdated(metrics(state, *threshold, flow)))
            }
            Happening::Congestion { kind } => match congestion(*kind) {
                Some(state) => schema(time, group, EventData::QuicCongestionStateUpdated(state)),
                None => own("timeous:loss_without_congestion", json!({ "flow": flow })),
            },
            Happening::MacroflowCreated { destination } => own("timeous:macroflow_created", path(destination)),
            Happening::Resumed { window } => own("timeous:macroflow_resumed", json!({ "window": window })),
            Happening::Arrived(Arrived { predicted, actual }) => {
                let [predicted, actual] = [predicted, actual].map(|&at| header.time(at));
                own("timeous:packet_arrived", json!({ "flow": flow, "predicted": predicted, "actual": actual }))
            }
            Happening::Held { user, rate } => {
                own("timeous:macroflow_held", json!({ "user": user.0, "rate_bps": rate.map(Rate::as_bps) }))
            }
            Happening::Opened { destination, client } => {
                let mut data = path(destination);
                data["flow"] = json!(flow);
                data["client"] = json!(client.as_u64());
                own("timeous:flow_opened", data)
            }
            Happening::Closed => own("timeous:flow_closed", json!({ "flow": flow })),
            Happening::Split => own("timeous:flow_split", json!({ "flow": flow })),
            Happening::Merged => own("timeous:flow_merged", json!({ "flow": flow })),
            Happening::Granted => own("timeous:granted", json!({ "flow": flow })),
            Happening::Notified { bytes } => own("timeous:notified", json!({ "flow": flow, "bytes": bytes })),
            Happening::Refused(why) => own("timeous:update_refused", json!({ "flow": flow, "why": why.to_string() })),
        }
    }

    /// Returns a record of `count` missing events.
    pub(super) fn lost(time: f64, count: u64) -> Self {
        Self::Own(Own { time, name: "timeous:events_lost", data: json!({ "count": count }), group_id: None })
    }

    pub(super) fn text(&self) -> io::Result<Vec<u8>> {
        match self {
            Self::Schema(event) => framed(event),
            Self::Own(event) => framed(event),
        }
    }
}

fn schema(time: f64, group: String, data: EventData) -> Record {
    let mut event = Event::with_time(time, data);
    event.group_id = Some(Box::new(group));
    Record::Schema(Box::new(event))
}

fn path(destination: &Destination) -> Value {
    let Destination { addr, dscp, source, user } = destination;
    let mut path = json!({ "address": addr, "dscp": dscp, "user": user.map(|user| user.0) });
    if let Some(source) = source {
        path["source"] = json!(source);
    }
    path
}

fn metrics(state: &PathState, threshold: Option<u64>, flow: Option<u64>) -> RecoveryMetricsUpdated {
    let millis = |time: timeous_core::Duration| time.as_secs_f64() as f32 * 1e3;
    RecoveryMetricsUpdated {
        ex_data: flow.map(|flow| ("flow".to_owned(), json!(flow))).into_iter().collect(),
        smoothed_rtt: state.srtt.map(millis),
        rtt_variance: state.srtt.map(|_| millis(state.rttvar)),
        min_rtt: state.min_rtt.map(millis),
        congestion_window: Some(state.window),
        bytes_in_flight: Some(state.outstanding),
        ssthresh: threshold,
        pacing_rate: Some(state.rate.as_bps()),
        ..RecoveryMetricsUpdated::default()
    }
}

/// Returns the congestion state that the schema defines for controllers like NewReno; `None`: the loss is no sign of
/// congestion.
fn congestion(kind: Loss) -> Option<CongestionStateUpdated> {
    let (new, trigger) = match kind {
        Loss::None => return None,
        Loss::Transient => ("recovery", None),
        Loss::Ecn => ("recovery", Some(CongestionStateUpdatedTrigger::Ecn)),
        Loss::Persistent => ("slow_start", Some(CongestionStateUpdatedTrigger::PersistentCongestion)),
    };
    Some(CongestionStateUpdated { old: None, new: new.to_owned(), trigger })
}
