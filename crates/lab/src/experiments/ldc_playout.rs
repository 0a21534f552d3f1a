//! ldc-playout: data that arrives in time for playout (Birkedal et al. §6 and §7, figures 7 and 8).

use serde_json::json;
use timeous::core::Duration;

use super::ldc::{BYTES, LAYERS, RATES, SECONDS, START_UPS, Sender, Trial, ViewerOutcome, choices, real, run as trial};
use crate::experiment::{About, Bound, Claim, Experiment, Figure, Findings, Forms, LabError, Run, Table};
use crate::report::plot::{Lines, Series};

pub(crate) struct LdcPlayout;

/// Bytes of the whole stream.
const ALL: u64 = BYTES * LAYERS as u64 * SECONDS;
/// Target for the share of received data that is in time, in percent.
const AIM: f64 = 97.0;

impl Experiment for LdcPlayout {
    fn about(&self) -> About {
        About {
            name: "ldc-playout",
            title: "Playout of a video over TCP with late choice",
            source: "Birkedal et al. §6 and §7, figures 7 and 8",
            paper: "with late choice data arrive in step with their playout, without it ever later; start-up buffers of 10 and 20 s put \
                    that off",
            forms: Forms::BothBySeed,
            seeds: 10,
            takes: "10 s; real 30 min, as root",
        }
    }

    fn run(&self, run: &Run<'_>) -> Result<Findings, LabError> {
        if run.real {
            return real::run(run, &START_UPS, findings);
        }
        let of_seed = |seed| {
            START_UPS.into_iter().flat_map(move |start_up| {
                RATES.into_iter().flat_map(move |rate| {
                    [Sender::Plain, Sender::LateChoice].map(|sender| Trial { sender, rate, start_up, seed })
                })
            })
        };
        let trials: Vec<Trial> = run.seeds().flat_map(of_seed).collect();
        let viewed = run.each("streams", &trials, trial);
        findings(&viewed)
    }
}

fn findings(viewed: &[ViewerOutcome]) -> Result<Findings, LabError> {
    let head =
        ["start-up, s", "link, kbit/s", "plain, kB in time", "late choice", "plain, % of what came", "late choice"];
    let mut table = Table::new("In time (means over the seeds)", &head);
    let mut claims = Vec::new();
    for start_up in START_UPS {
        for rate in RATES {
            let cell = Cell { viewed, start_up, kbps: rate.as_bps() / 1_000 };
            let [plain, late] = [Sender::Plain, Sender::LateChoice].map(|sender| cell.in_time(sender));
            let [plain_share, late_share] = [Sender::Plain, Sender::LateChoice].map(|sender| cell.share(sender));
            table.row([
                cell.seconds().to_string(),
                cell.kbps.to_string(),
                format!("{:.0}", plain / 1e3),
                format!("{:.0}", late / 1e3),
                format!("{plain_share:.1}"),
                format!("{late_share:.1}"),
            ]);
            let at = format!("at {} kbit/s, {} s of start-up", cell.kbps, cell.seconds());
            let has_all = cell.has_all(Sender::LateChoice);
            let what = format!("more bytes in time with late choice, or all that there are, {at}");
            let all = if has_all { ", all that there are" } else { "" };
            let measured = format!("{:.0} against {:.0} kB{all}", late / 1e3, plain / 1e3);
            claims.push(Claim::order(&what, "yes", measured, late > plain || has_all));
            let what = format!("percent in time of what came with late choice {at}");
            claims
                .push(Claim::new(&what, "some late", format!("{late_share:.1}"), late_share).aim(Bound::AtLeast(AIM)));
        }
    }
    let (setup, tables, figures) = (choices(), vec![table], vec![figure(viewed)?]);
    let notes = vec![
        "A tie counts in one case alone: each stream with late choice had every byte that there is in time, so that there was nothing \
         more to bring. With 20 s of start-up over 1024 kbit/s the whole stream fits, and plain TCP has all of it, too: late choice is no \
         better there, and loses nothing."
            .to_owned(),
    ];
    Ok(Findings { setup, tables, figures, claims, notes, data: json!({ "streams": viewed }) })
}

/// Results at one start-up time and rate.
struct Cell<'a> {
    viewed: &'a [ViewerOutcome],
    start_up: Duration,
    kbps: u64,
}

impl<'a> Cell<'a> {
    fn seconds(&self) -> u64 {
        self.start_up.as_millis() / 1_000
    }

    fn of(&self, sender: Sender) -> impl Iterator<Item = &'a ViewerOutcome> {
        let (start_up, kbps) = (self.seconds(), self.kbps);
        self.viewed.iter().filter(move |one| one.start_up == start_up && one.kbps == kbps && one.sender == sender)
    }

    fn in_time(&self, sender: Sender) -> f64 {
        self.of(sender).map(|one| one.in_time as f64).sum::<f64>() / self.of(sender).count() as f64
    }

    /// Returns whether every stream had all of its bytes in time.
    fn has_all(&self, sender: Sender) -> bool {
        self.of(sender).count() > 0 && self.of(sender).all(|one| one.in_time == ALL)
    }

    fn share(&self, sender: Sender) -> f64 {
        let arrived: u64 = self.of(sender).map(|one| one.arrived).sum();
        100.0 * self.of(sender).map(|one| one.in_time).sum::<u64>() as f64 / arrived as f64
    }
}

/// Plots the latest packet of each second for the first seed at the highest rate.
fn figure(viewed: &[ViewerOutcome]) -> Result<Figure, LabError> {
    let mut series = Vec::new();
    for (sender, name) in [(Sender::Plain, "plain"), (Sender::LateChoice, "late choice")] {
        for start_up in START_UPS {
            let cell = Cell { viewed, start_up, kbps: RATES[0].as_bps() / 1_000 };
            let Some(first) = cell.of(sender).next() else { continue };
            let mut worst = std::collections::BTreeMap::<u64, f64>::new();
            for &(second, late) in &first.lateness {
                let slot = worst.entry(second).or_insert(f64::MIN);
                *slot = slot.max(late);
            }
            let points = worst.into_iter().map(|(second, late)| (second as f64, late)).collect();
            series.push(Series::new(&format!("{name}, {} s", cell.seconds()), points));
        }
    }
    let lines = Lines {
        title: "How late the last packet of each second came, 1024 kbit/s",
        x: "second of the stream",
        y: "after its playout, s",
        series,
    };
    Ok(Figure::new(lines.draw()?, "Below zero is in time. As figure 8 of the paper; the first seed."))
}
