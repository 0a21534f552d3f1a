//! Tables and claims of the measurements.

use serde_json::json;

use super::super::daemon::false_feedback::FalseFeedback;
use super::killed_clients::{self, Deaths, SurvivorStats};
use super::scale::{self, Scale};
use super::users::{self, Outcome};
use crate::experiment::{Choice, Claim, Findings, Rows, Table, mean, most, setup};

pub(super) fn findings(scale: &Scale, deaths: &Deaths, users: &[Outcome]) -> Findings {
    Findings {
        setup: choices(),
        tables: vec![table_of_scale(scale), table_of_deaths(deaths), table_of_users(users)],
        claims: [claims_of_scale(scale), claims_of_deaths(deaths), claims_of_users(users)].concat(),
        notes: vec![
            "Who hides losses says what can be true: only the network or the receiver could tell. Who acknowledges what has just \
             left does the same: the daemon keeps feedback that comes too soon until it can be true. But two others meet \
             congestion where each of these tells of none: so he is held to what arrives of theirs. Until they have met it three \
             times he crowds them out, and who tells of some of his losses is not found out. Inside the manager the windows of \
             other users are not his."
                .to_owned(),
        ],
        data: json!({ "scale": scale, "deaths": deaths, "users": users }),
        ..Findings::default()
    }
}

fn table_of_scale(scale: &Scale) -> Table {
    let mut table = Table::new("A thousand flows in a hundred macroflows", &["what", "daemon", "clients"]);
    let more = scale.client_micros - scale.plain_micros;
    let mut row = |what: &str, daemon: String, clients: String| table.row([what.to_owned(), daemon, clients]);
    row("processor's time a grant, µs", format!("{:.2}", scale.daemon_micros), format!("{:.2}", scale.client_micros));
    row("the same, asking nobody, µs", String::new(), format!("{:.2}", scale.plain_micros));
    row("more for a grant, µs", format!("{:.2}", scale.daemon_micros), format!("{more:.2}"));
    row(
        "memory a flow when it is open, bytes",
        format!("{:.0}", scale.daemon_bytes),
        format!("{:.0}", scale.client_bytes),
    );
    row("memory a flow after it was used, bytes", format!("{:.0}", scale.daemon_bytes_used), String::new());
    row("grants", scale.grants.to_string(), scale.grants.to_string());
    table
}

fn claims_of_scale(scale: &Scale) -> Vec<Claim> {
    let plain = |what: &str, unit: &str, value: f64| Claim::new(what, "", format!("{value:.2} {unit}"), value);
    vec![
        Claim::new("flows that were open at once", "", scale.flows.to_string(), scale.flows as f64)
            .pass(scale::FLOWS as f64..),
        Claim::new("macroflows that they made", "", scale.macroflows.to_string(), scale.macroflows as f64)
            .pass(scale::MACROFLOWS as f64..=scale::MACROFLOWS as f64),
        plain("processor's time of the daemon a grant", "µs", scale.daemon_micros),
        plain("of a client a grant, over sending unasked", "µs", scale.client_micros - scale.plain_micros),
        plain("memory of the daemon a flow", "KiB", scale.daemon_bytes_used / 1_024.0),
        plain("memory of a client a flow", "KiB", scale.client_bytes / 1_024.0),
        Claim::new("feedback of honest clients that was refused", "", scale.refused.to_string(), scale.refused as f64),
    ]
}

fn table_of_deaths(deaths: &Deaths) -> Table {
    let whose = |beside| if beside { "in the macroflow of the dying" } else { "to another host" };
    Rows::of(deaths.survivors.iter().enumerate())
        .column("flow of another", |(number, one)| format!("{number}, {}", whose(one.beside)))
        .number("kbit/s beside one who lives", 1, |(_, one)| one.alive)
        .number("while others die", 1, |(_, one)| one.dying)
        .number("longest gap beside one who lives, ms", 1, |(_, one)| one.alive_gap)
        .number("while others die, ms", 1, |(_, one)| one.dying_gap)
        .table("Those who live on")
}

fn claims_of_deaths(deaths: &Deaths) -> Vec<Claim> {
    let none_left = |what: &str, left: i64| {
        Claim::new(format!("{what} left of {} deaths", killed_clients::DEATHS), "", left, left as f64).pass(..=0.0)
    };
    let off = |survivors: &&SurvivorStats| (survivors.ratio() - 1.0).abs();
    let worst = deaths.survivors.iter().max_by(|a, b| off(a).total_cmp(&off(b))).expect("there are others");
    let gap = most(deaths.survivors.iter().map(|survivors| survivors.dying_gap));
    let before = most(deaths.survivors.iter().map(|survivors| survivors.alive_gap));
    let kib = deaths.bytes as f64 / 1_024.0;
    vec![
        none_left("flows", deaths.flows),
        none_left("clients", deaths.clients),
        none_left("descriptors", deaths.descriptors),
        Claim::number("memory of the daemon left, KiB", "", 0, kib).pass(..=1_024.0),
        Claim::new("until the last was forgotten, ms", "", format!("{:.0}", deaths.forgotten), deaths.forgotten)
            .pass(..=1_000.0),
        Claim::new(
            "rate of the others while some die, over that before: the farthest",
            "",
            format!("{:.3}", worst.ratio()),
            worst.ratio(),
        )
        .pass(0.95..=1.05),
        Claim::new("longest time without a packet of another, ms", "", format!("{gap:.0} ({before:.0} before)"), gap)
            .pass(..=1_000.0)
            .aim(..=100.0),
    ]
}

/// Returns the mean rate of a user where all are honest; the mean over all three has the least
/// noise.
fn honest(users: &[Outcome]) -> f64 {
    mean(users.iter().filter(|outcome| outcome.lie == FalseFeedback::None).flat_map(|outcome| outcome.kbps))
}

fn table_of_users(users: &[Outcome]) -> Table {
    let honest = honest(users);
    Rows::of(users)
        .column("the third user", |one| one.lie.name())
        .number("his kbit/s", 0, |one| one.kbps[2])
        .column("the others' kbit/s", |one| format!("{:.0}, {:.0}", one.kbps[0], one.kbps[1]))
        .number("his, over an honest one's", 2, |one| one.kbps[2] / honest)
        .number("the others', over honest ones'", 2, |one| one.others() / honest)
        .column("his updates refused", |one| one.refused[2])
        .column("the others' refused", |one| one.refused[0] + one.refused[1])
        .table("Three users over one bottleneck")
}

fn claims_of_users(users: &[Outcome]) -> Vec<Claim> {
    let honest = honest(users);
    let claim = |outcome: &Outcome| {
        let who = outcome.lie.name();
        let gain = Claim::number(format!("rate of who {who}, over an honest one's"), "", 2, outcome.kbps[2] / honest);
        let kept = format!("the others' beside who {who}, over beside an honest one");
        let refused = Claim::count(format!("updates refused of who {who}"), "", outcome.refused[2]);
        let refused = if outcome.lie.is_impossible() { refused.pass(1.0..) } else { refused };
        [gain.pass(..=1.05), Claim::number(kept, "", 2, outcome.others() / honest).pass(0.95..), refused]
    };
    let liars = users.iter().filter(|outcome| outcome.lie != FalseFeedback::None);
    let refused = users.iter().map(|outcome| outcome.refused[0] + outcome.refused[1]).sum();
    liars.flat_map(claim).chain([Claim::count("updates refused of the honest", "", refused)]).collect()
}

fn choices() -> Vec<Choice> {
    let millis = |time: timeous::core::Duration| format!("{} ms", time.as_millis());
    setup! {
        ours "many": "{} flows to {} addresses of the loopback, {} processes, a packet of {} bytes of each flow each \
            {}", scale::FLOWS, scale::MACROFLOWS, scale::PROCESSES, scale::LEN, millis(scale::EVERY)
            => "each packet is asked for, granted, sent, acknowledged and told by itself: batches would cost less";
        ours "cost": "processor's time of all threads; clients beside the same that ask nobody"
            => "sending is no cost of a grant";
        ours "memory": "resident set with all flows less that with all clients connected"
            => "clients have queues, too";
        ours "dying": "{} processes, one after the other, {} flows each, killed with SIGKILL after 20 to 80 ms",
            killed_clients::DEATHS, killed_clients::FLOWS => "packets of each are under way then";
        ours "others": "{} processes with a flow beside the dying and one to another host; {} bytes each {}, {} each \
            way",
            killed_clients::OTHERS, killed_clients::LEN, millis(killed_clients::EVERY), millis(killed_clients::DELAY)
            => "a rate of their own: what they miss of it is what they feel";
        ours "users": "three, a process and a flow each, always with something to send; {}, {} each way, {} packets \
            drop-tail", users::RATE, millis(users::DELAY), users::QUEUE
            => "each kind of lie has a bottleneck of its own; all run at once";
        ours "compared": "{} s after {} s, with the mean of {} paths where all are honest",
            users::TIME.as_secs_f64(), users::WARM_UP.as_secs_f64(), users::HONEST
            => "what equals get differs by a few percent";
    }
}
