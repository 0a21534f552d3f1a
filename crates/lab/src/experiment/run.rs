//! Parameters of a run, and helpers.

use std::convert::Infallible;
use std::thread;

use timeous_testbed::Progress;
use timeous_testbed::RunError;

use super::findings::Findings;
use super::sabotage::Sabotage;

/// Extent of an experiment, where cells can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Extent {
    /// As few cells as the claims of the sabotages need.
    Least,
    /// A few cells, as a smoke test.
    Small,
    /// Enough cells for the claims.
    #[default]
    Usual,
    /// All cells.
    Full,
}

/// Parameters of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run<'a> {
    /// First seed of its randomness.
    pub(crate) seed: u64,
    /// Number of consecutive seeds, from `seed` on.
    pub(crate) seeds: u32,
    /// Whether to run on this machine's kernel rather than in virtual time.
    pub(crate) real: bool,
    /// Extent of the run.
    pub(crate) extent: Extent,
    /// Part of the experiment that is broken on purpose.
    pub(crate) sabotage: Option<Sabotage>,
    /// Progress display.
    pub(crate) progress: &'a Progress,
}

impl Run<'_> {
    /// Whether this part of the experiment is broken on purpose.
    pub(crate) fn breaks(&self, sabotage: Sabotage) -> bool {
        self.sabotage == Some(sabotage)
    }

    /// The seeds, in order.
    pub(crate) fn seeds(&self) -> impl Iterator<Item = u64> + use<> {
        let first = self.seed;
        (0..u64::from(self.seeds)).map(move |i| first.wrapping_add(i))
    }

    /// Calls `work` once for each of `items` in every round, and returns the results of the rounds, each in the order of
    /// the items. The order of the calls rotates, so that each is first equally often: other load on the machine affects
    /// all alike.
    ///
    /// # Errors
    /// That of the first call that failed.
    pub(crate) fn rounds<I: Copy, T: Copy + Default, const N: usize>(
        &self,
        what: &str,
        rounds: usize,
        items: [I; N],
        work: impl Fn(I) -> Result<T, RunError>,
    ) -> Result<Vec<[T; N]>, RunError> {
        let task = self.progress.task(what, rounds as u64);
        let round = |number: usize| {
            let mut round = [T::default(); N];
            for index in (0..N).map(|place| (number + place) % N) {
                round[index] = work(items[index])?;
            }
            task.step();
            Ok(round)
        };
        (0..rounds).map(round).collect()
    }

    /// Calls `work` for each of `items` on as many threads as there are cores. Results are in the order of the items.
    pub(crate) fn each<I: Sync, T: Send>(&self, what: &str, items: &[I], work: impl Fn(&I) -> T + Sync) -> Vec<T> {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let Ok(results) = self.progress.all(what, items, threads, |_, item| Ok::<_, Infallible>(work(item)));
        results
    }
}

/// An experiment of a paper, with a subcommand of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Experiment {
    /// Name of its subcommand, such as `lai-age`.
    pub(crate) name: &'static str,
    /// Short title.
    pub(crate) title: &'static str,
    /// Source: authors, section, figure.
    pub(crate) source: &'static str,
    /// Result that the paper reports.
    pub(crate) paper: &'static str,
    /// Forms in which it runs.
    pub(crate) forms: Forms,
    /// Default number of seeds.
    pub(crate) seeds: u32,
    /// Approximate duration, for people: `5 s; real 1 min`.
    pub(crate) takes: &'static str,
    /// Sabotages, each with the claims that fall with it: in virtual time, or real where there is no other form.
    pub(crate) sabotages: &'static [Sabotage],
    /// Runs it in the form given by the parameters. [`RunError`] if it could not be run; bad results are claims.
    pub(crate) run: fn(&Run<'_>) -> Result<Findings, RunError>,
}

impl Experiment {
    /// Default number of seeds in a form: one for a real run, which is not more random for a seed, unless the seed
    /// matters there, too, or there is no other form.
    pub(crate) fn seeds_of(&self, real: bool) -> u32 {
        if real && self.forms == Forms::Both { 1 } else { self.seeds }
    }

    /// Whether it does not run in virtual time.
    pub(crate) fn is_only_real(&self) -> bool {
        !self.forms.include(false)
    }

    /// Command line that repeats the run.
    pub(super) fn command(&self, run: &Run<'_>) -> String {
        let mut words = format!("timeous-lab {} --seed {}", self.name, run.seed);
        if run.seeds != self.seeds_of(run.real) {
            words.push_str(&format!(" --seeds {}", run.seeds));
        }
        if run.real {
            words.push_str(" --real");
        }
        match run.extent {
            Extent::Least => words.push_str(" --extent least"),
            Extent::Small => words.push_str(" --extent small"),
            Extent::Usual => {}
            Extent::Full => words.push_str(" --extent full"),
        }
        if let Some(sabotage) = run.sabotage {
            words.push_str(&format!(" --sabotage {}", sabotage.name));
        }
        words
    }
}

/// Forms in which an experiment runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forms {
    /// Virtual time: the same output for the same seed, on every machine.
    Virtual,
    /// This machine's kernel.
    Real,
    /// Both.
    Both,
    /// Both, and the seed affects the runs of both.
    BothBySeed,
}

impl Forms {
    /// Whether the form is supported.
    pub(crate) fn include(self, real: bool) -> bool {
        match self {
            Self::Virtual => !real,
            Self::Real => real,
            Self::Both | Self::BothBySeed => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_many_threads_are_in_the_order_of_the_items() {
        let progress = Progress::silent();
        let run = Run { seed: 7, seeds: 100, real: false, extent: Extent::Usual, sabotage: None, progress: &progress };
        let seeds: Vec<u64> = run.seeds().collect();
        assert_eq!(run.each("seeds", &seeds, |seed| seed * 2), (7..107).map(|seed| seed * 2).collect::<Vec<_>>());
        assert!(run.each("nothing", &[], |seed: &u64| *seed).is_empty());
    }

    #[test]
    fn rounds_rotate_and_keep_their_order() {
        let progress = Progress::silent();
        let run = Run { seed: 7, seeds: 1, real: true, extent: Extent::Usual, sabotage: None, progress: &progress };
        let calls = std::cell::RefCell::new(Vec::new());
        let work = |item: u64| {
            calls.borrow_mut().push(item);
            Ok(10 * item)
        };
        assert_eq!(run.rounds("rounds", 2, [1, 2], work).unwrap(), [[10, 20], [10, 20]]);
        assert_eq!(calls.into_inner(), [1, 2, 2, 1]);
    }

    #[test]
    fn a_form_is_there_or_not() {
        let included = |forms: Forms| [false, true].map(|real| forms.include(real));
        assert_eq!(
            [Forms::Virtual, Forms::Real, Forms::Both, Forms::BothBySeed].map(included),
            [[true, false], [false, true], [true, true], [true, true]]
        );
    }
}
