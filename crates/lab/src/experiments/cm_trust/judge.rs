//! Gain of the liar, and loss of the other users.

use serde_json::json;
use timeous::core::Duration;

use super::sender::FalseFeedback;
use super::trial::{LOST_EACH, MOST, Outcome, QUEUE, RATE, RTT, SHORT, Setting, TIME, WARM_UP};
use crate::experiment::{Bound, Choice, Claim, Findings, Table};

/// Outcomes of all lies and seeds.
struct Outcomes<'a>(&'a [Outcome]);

impl Outcomes<'_> {
    fn of(&self, setting: Setting, lie: FalseFeedback) -> impl Iterator<Item = &Outcome> {
        self.0.iter().filter(move |outcome| outcome.trial.lie == lie && outcome.trial.setting == setting)
    }

    /// Returns the mean over all seeds.
    fn mean(&self, setting: Setting, lie: FalseFeedback, value: impl Fn(&Outcome) -> f64) -> f64 {
        let values: Vec<f64> = self.of(setting, lie).map(value).collect();
        values.iter().sum::<f64>() / values.len() as f64
    }

    /// Returns that mean relative to the mean with an honest third user.
    fn over_honest(&self, setting: Setting, lie: FalseFeedback, value: impl Fn(&Outcome) -> f64 + Copy) -> f64 {
        self.mean(setting, lie, value) / self.mean(setting, FalseFeedback::None, value)
    }

    /// Counts packets of the others that leave at another time than beside an honest third user.
    fn moved(&self, setting: Setting, lie: FalseFeedback) -> usize {
        let pairs = self.of(setting, lie).zip(self.of(setting, FalseFeedback::None));
        let users = pairs.flat_map(|(lying, honest)| lying.left.iter().zip(&honest.left));
        let moved = users.map(|(lying, honest)| {
            let same = lying.iter().zip(honest).filter(|(lying, honest)| lying == honest).count();
            lying.len().max(honest.len()) - same
        });
        moved.sum()
    }
}

/// Returns the third user's lies in which all users use the manager.
fn lies() -> impl Iterator<Item = FalseFeedback> {
    FalseFeedback::ALL.into_iter().filter(|lie| !matches!(lie, FalseFeedback::None | FalseFeedback::Outside))
}

pub(super) fn findings(outcomes: &[Outcome]) -> Findings {
    let outcomes = Outcomes(outcomes);
    let mut data = Vec::new();
    for setting in [Setting::Apart, Setting::Together] {
        for lie in FalseFeedback::ALL {
            data.push(json!({
                "one_macroflow": setting == Setting::Together,
                "third": lie.name(),
                "his_kbps": outcomes.mean(setting, lie, |o| o.kbps[2]),
                "others_kbps": outcomes.mean(setting, lie, Outcome::others),
                "refused": outcomes.mean(setting, lie, |o| o.refused as f64),
            }));
        }
    }
    Findings {
        setup: choices(),
        tables: vec![
            bottleneck(&outcomes, Setting::Apart, "Over a bottleneck, a macroflow for each user (means of all seeds)"),
            bottleneck(&outcomes, Setting::Together, "The same, one macroflow for all, as in the paper"),
            room(&outcomes),
        ],
        figures: Vec::new(),
        claims: claims(&outcomes),
        notes: vec![
            "What can be true is believed, unless two others who go the same way meet congestion again and again and he tells \
             of none: then he is held to what arrives of theirs. Who tells of some of his losses only, or sends without the \
             manager, fills the network's queue as ever, and the others share what is left: the manager is no policeman of \
             the network. It keeps his lies out of what the others are granted."
                .to_owned(),
        ],
        data: json!({ "hosts": data }),
    }
}

fn bottleneck(outcomes: &Outcomes<'_>, setting: Setting, title: &str) -> Table {
    let head =
        ["the third", "his kbit/s", "each other's", "his largest window, bytes", "the others'", "his refused updates"];
    let mut table = Table::new(title, &head);
    for lie in FalseFeedback::ALL {
        let values: [fn(&Outcome) -> f64; 5] =
            [|o| o.kbps[2], Outcome::others, |o| o.window[1] as f64, |o| o.window[0] as f64, |o| o.refused as f64];
        let [his, others, window, others_window, refused] =
            values.map(|value| format!("{:.0}", outcomes.mean(setting, lie, value)));
        table.row([lie.name().to_owned(), his, others, window, others_window, refused]);
    }
    table
}

fn room(outcomes: &Outcomes<'_>) -> Table {
    let head = ["the third", "a macroflow for each user", "one for all"];
    let title = "Packets of the others that left at another time because of him, where the path has room for all";
    let mut table = Table::new(title, &head);
    for lie in FalseFeedback::ALL.into_iter().filter(|&lie| lie != FalseFeedback::None) {
        let moved = [Setting::Room, Setting::RoomTogether].map(|setting| {
            let all: usize = outcomes.of(setting, FalseFeedback::None).flat_map(|o| &o.left).map(Vec::len).sum();
            format!("{} ({all} beside an honest third)", outcomes.moved(setting, lie))
        });
        let [apart, together] = moved;
        table.row([lie.name().to_owned(), apart, together]);
    }
    table
}

/// Returns the claims. Bounds were chosen before the first run: refused feedback gains no more than
/// chance, and no grant to another user may change its time because of a lie.
fn claims(outcomes: &Outcomes<'_>) -> Vec<Claim> {
    let refused = [FalseFeedback::Early, FalseFeedback::More];
    let gain = |lie| outcomes.over_honest(Setting::Apart, lie, |o| o.kbps[2]);
    let left = |setting, lie| outcomes.over_honest(setting, lie, Outcome::others);
    let most = refused.map(gain).into_iter().fold(0.0, f64::max);
    let least = refused.map(|lie| left(Setting::Apart, lie)).into_iter().fold(f64::INFINITY, f64::min);
    let moved: usize = lies().map(|lie| outcomes.moved(Setting::Room, lie)).sum();
    let shown = |what: &str, value: f64| Claim::new(what, "", format!("{value:.2}"), value);
    vec![
        shown("rate of who acknowledges what has just left or more than he sent, over the honest", most)
            .pass(Bound::AtMost(1.05)),
        shown("the others' beside him, over that beside the honest", least).pass(Bound::AtLeast(0.95)),
        Claim::new(
            "packets of the others granted at another time because of any lie, where the network has room",
            "",
            moved.to_string(),
            moved as f64,
        )
        .pass(Bound::AtMost(0.0)),
        shown(
            "the others' rate beside who hides his losses, over that beside the honest",
            left(Setting::Apart, FalseFeedback::Deaf),
        ),
        shown("the same beside who says that all arrives", left(Setting::Apart, FalseFeedback::Swift)),
        shown("the same beside who sends without the manager", left(Setting::Apart, FalseFeedback::Outside)),
    ]
}

fn choices() -> Vec<Choice> {
    let millis = |time: Duration| format!("{} ms", time.as_millis());
    vec![
        Choice::ours(
            "bottleneck",
            format!("{RATE}, {} there and back, {QUEUE} packets drop-tail", millis(RTT)),
            "a queue of about the path's length",
        ),
        Choice::ours("users", "three, with one flow each; the third is the liar", "as few as tell something"),
        Choice::ours(
            "has to send",
            format!("at most {MOST} each"),
            "more than there is, and not without end where lies are believed",
        ),
        Choice::ours("not believed", "he tells the truth", "else a refused lie would cost him all that it was about"),
        Choice::ours(
            "host",
            "no flow of its own to that host",
            "what it had seen of the path would bind the liar further",
        ),
        Choice::ours(
            "counted",
            format!("{} after {}; {} where there is room", millis(TIME), millis(WARM_UP), millis(SHORT)),
            "slow start is over by then, and counts where there is room",
        ),
        Choice::ours(
            "room",
            format!("no bottleneck; each {LOST_EACH}th packet of the third is lost behind it"),
            "what the network does to the others is the same whatever he says",
        ),
        Choice::ours("by seed", "when each flow starts", "the rest is not random"),
    ]
}
