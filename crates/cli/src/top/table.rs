//! Table of macroflows and flows: columns, layout, contents and sort order.

use std::cmp::{Ordering, Reverse};

use timeous_daemon::view::{Client, Flow, Macroflow, View};

use super::history::History;
use crate::figures::{micros, ppm, scaled};

/// Sort order of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Order {
    /// Sending rate between the last two snapshots
    #[default]
    Sent,
    /// Rate that congestion control allows
    Rate,
    /// Round-trip time
    Rtt,
    /// Share of packets lost
    Loss,
    /// Congestion window
    Window,
    /// Waiting requests
    Waiting,
    /// Open flows
    Flows,
    /// Address
    To,
}

impl Order {
    /// Next sort order, cyclically.
    pub(crate) fn next(self) -> Self {
        use Order::{Flows, Loss, Rate, Rtt, Sent, To, Waiting, Window};
        match self {
            Sent => Rate,
            Rate => Rtt,
            Rtt => Loss,
            Loss => Window,
            Window => Waiting,
            Waiting => Flows,
            Flows => To,
            To => Sent,
        }
    }

    /// Title of the sorted column.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Sent => "SENT",
            Self::Rate => "RATE",
            Self::Rtt => "RTT",
            Self::Loss => "LOSS",
            Self::Window => "WINDOW",
            Self::Waiting => "WAIT",
            Self::Flows => "FLOWS",
            Self::To => "TO",
        }
    }
}

/// Column: title, width, and how early it is hidden on a narrow screen (0: never).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) title: &'static str,
    pub(crate) width: u16,
    left_out: u8,
}

/// All columns of the table; the first one takes the remaining width.
pub(crate) const COLUMNS: [Column; 13] = [
    Column { title: "TO", width: 24, left_out: 0 },
    Column { title: "USER", width: 6, left_out: 4 },
    Column { title: "CC", width: 8, left_out: 5 },
    Column { title: "FLOWS", width: 5, left_out: 3 },
    Column { title: "RATE", width: 6, left_out: 0 },
    Column { title: "SENT", width: 6, left_out: 0 },
    Column { title: "RTT", width: 6, left_out: 0 },
    Column { title: "LOSS", width: 6, left_out: 1 },
    Column { title: "WINDOW", width: 6, left_out: 1 },
    Column { title: "FLIGHT", width: 6, left_out: 6 },
    Column { title: "WAIT", width: 5, left_out: 2 },
    Column { title: "GRANTS", width: 6, left_out: 7 },
    Column { title: "HISTORY", width: 20, left_out: 8 },
];

/// Columns that fit into `width`, as indices into [`COLUMNS`].
pub(crate) fn fitting(width: u16) -> Vec<usize> {
    let mut kept: Vec<usize> = (0..COLUMNS.len()).collect();
    let needed = |kept: &[usize]| kept.iter().map(|&at| COLUMNS[at].width + 1).sum::<u16>() - 1;
    while needed(&kept) > width {
        let Some(goes) =
            (0..kept.len()).filter(|&n| COLUMNS[kept[n]].left_out > 0).max_by_key(|&n| COLUMNS[kept[n]].left_out)
        else {
            break;
        };
        kept.remove(goes);
    }
    kept
}

/// Row of the table, with all columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) cells: [String; COLUMNS.len()],
    /// Macroflow shown, or the one that the flow belongs to.
    pub(crate) macroflow: u64,
    /// Whether the row is a flow.
    pub(crate) is_flow: bool,
}

/// Layout of the table.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Layout {
    pub(crate) order: Order,
    pub(crate) reversed: bool,
    /// Whether flows are hidden.
    pub(crate) folded: bool,
}

/// All rows in sort order; flows follow their macroflow.
pub(crate) fn rows(view: &View, history: &History, layout: Layout) -> Vec<Row> {
    let mut macroflows: Vec<_> = view.macroflows.iter().collect();
    macroflows.sort_by(|a, b| {
        let order = compare(a, b, history, layout.order);
        (if layout.reversed { order.reverse() } else { order }).then(a.id.cmp(&b.id))
    });
    let mut rows = Vec::new();
    for macroflow in macroflows {
        rows.push(of_macroflow(macroflow, history));
        if !layout.folded {
            let flows = macroflow.flows.iter();
            rows.extend(flows.map(|flow| of_flow(macroflow.id, flow, &view.clients, history)));
        }
    }
    rows
}

/// Compares in descending order; addresses in ascending order.
fn compare(a: &Macroflow, b: &Macroflow, history: &History, order: Order) -> Ordering {
    let most_first = |key: &dyn Fn(&Macroflow) -> u64| Reverse(key(a)).cmp(&Reverse(key(b)));
    match order {
        Order::Sent => most_first(&|m| history.macroflow(m.id).map_or(0, |rate| rate.as_bps())),
        Order::Rate => most_first(&|m| m.rate_bps),
        Order::Rtt => most_first(&|m| m.srtt_us.unwrap_or(0)),
        Order::Loss => most_first(&|m| m.loss_ppm.into()),
        Order::Window => most_first(&|m| m.window_bytes),
        Order::Waiting => most_first(&|m| m.waiting),
        Order::Flows => most_first(&|m| m.flows.len() as u64),
        Order::To => (a.address, a.dscp, a.user).cmp(&(b.address, b.dscp, b.user)),
    }
}

fn of_macroflow(macroflow: &Macroflow, history: &History) -> Row {
    let to = if macroflow.dscp == 0 {
        macroflow.address.to_string()
    } else {
        format!("{} dscp {}", macroflow.address, macroflow.dscp)
    };
    let sent = history.macroflow(macroflow.id).map_or_else(dash, |rate| scaled(rate.as_bps()));
    let history = history.sparkline(macroflow.id, usize::from(COLUMNS[COLUMNS.len() - 1].width));
    Row {
        cells: [
            to,
            macroflow.user.map_or("host".to_owned(), |user| user.to_string()),
            macroflow.controller.clone(),
            macroflow.flows.len().to_string(),
            scaled(macroflow.rate_bps),
            sent,
            macroflow.srtt_us.map_or_else(dash, micros),
            ppm(macroflow.loss_ppm),
            scaled(macroflow.window_bytes),
            scaled(macroflow.outstanding_bytes),
            macroflow.waiting.to_string(),
            macroflow.grants.to_string(),
            history,
        ],
        macroflow: macroflow.id,
        is_flow: false,
    }
}

fn of_flow(macroflow: u64, flow: &Flow, clients: &[Client], history: &History) -> Row {
    let whose = match clients.iter().find(|client| client.id == flow.client) {
        Some(client) => format!("pid {}", client.pid),
        // The daemon's own engine, which runs streams for other processes.
        None if flow.client == 0 => "daemon".to_owned(),
        None => format!("client {}", flow.client),
    };
    let port = flow.remote.map(|remote| format!(":{}", remote.port())).unwrap_or_default();
    let weight = if flow.weight == 1 { String::new() } else { format!(" ×{}", flow.weight) };
    let sent = history.flow(flow.id).map_or_else(dash, |rate| scaled(rate.as_bps()));
    let nothing = String::new;
    Row {
        cells: [
            format!("  {}{port} {whose}{weight}", flow.id),
            nothing(),
            nothing(),
            nothing(),
            nothing(),
            sent,
            nothing(),
            nothing(),
            nothing(),
            scaled(flow.outstanding_bytes),
            flow.waiting.to_string(),
            flow.grants.to_string(),
            nothing(),
        ],
        macroflow,
        is_flow: true,
    }
}

fn dash() -> String {
    "-".to_owned()
}

/// First line: summary of the daemon.
pub(crate) fn summary(view: &View, history: &History) -> String {
    let flows: usize = view.macroflows.iter().map(|macroflow| macroflow.flows.len()).sum();
    let sent: Option<u64> = view.macroflows.iter().map(|m| history.macroflow(m.id).map(|rate| rate.as_bps())).sum();
    let sent = match sent {
        Some(sent) if !view.macroflows.is_empty() => format!(", sending {}bit/s", scaled(sent)),
        _ => String::new(),
    };
    let up = crate::figures::age(timeous::core::Duration::from_millis(view.uptime_ms));
    let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    format!(
        "timeous {}, process {}, up {up}: {}, {}, {}{sent}",
        view.version,
        view.pid,
        count(view.clients.len(), "client"),
        count(view.macroflows.len(), "macroflow"),
        count(flows, "flow"),
    )
}

/// Problems of the daemon's health; `None` if there are none.
pub(crate) fn complaints(view: &View) -> Option<String> {
    let health = view.health;
    let all = [
        (health.violations_total, "clients disconnected for breaking the rules"),
        (health.path_write_failures_total, "failed writes of the path memory"),
        (health.qlog_lost_total, "events lost by the qlog"),
    ];
    let told: Vec<_> = all.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
    (!told.is_empty()).then(|| told.join(", "))
}
