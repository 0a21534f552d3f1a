//! Grid of trials: the points of the declared axes, each run with every seed, and their outcomes.

use serde::Serialize;
use serde_json::{Map, Value, json};
use timeous_testbed::{Stats, mean};

use super::findings::Rows;
use super::run::Run;

/// Outcomes of a grid: one for each point and seed, in that order.
#[derive(Clone, Debug)]
pub(crate) struct Grid<P, O> {
    runs: Vec<(P, u64, O)>,
}

/// Outcomes at one point, in the order of the seeds.
#[derive(Clone, Debug)]
pub(crate) struct At<'a, P, O> {
    pub(crate) point: &'a P,
    pub(crate) outcomes: Vec<&'a O>,
}

impl<P, O> At<'_, P, O> {
    /// Returns the statistics of a metric over the seeds.
    pub(crate) fn stats(&self, metric: impl Fn(&O) -> f64) -> Stats {
        Stats::of(self.outcomes.iter().map(|outcome| metric(outcome)))
    }

    /// Returns the mean of a metric over the seeds.
    pub(crate) fn mean(&self, metric: impl Fn(&O) -> f64) -> f64 {
        mean(self.outcomes.iter().map(|outcome| metric(outcome)))
    }
}

impl Run<'_> {
    /// Runs `trial` at each point with each seed, on all cores.
    pub(crate) fn grid<P: Clone + Sync, O: Send>(
        &self,
        what: &str,
        points: impl IntoIterator<Item = P>,
        trial: impl Fn(&P, u64) -> O + Sync,
    ) -> Grid<P, O> {
        self.grid_of(what, points, &self.seeds().collect::<Vec<_>>(), trial)
    }

    /// Runs `trial` at each point with each of `seeds`.
    pub(crate) fn grid_of<P: Clone + Sync, O: Send>(
        &self,
        what: &str,
        points: impl IntoIterator<Item = P>,
        seeds: &[u64],
        trial: impl Fn(&P, u64) -> O + Sync,
    ) -> Grid<P, O> {
        let runs = points.into_iter().flat_map(|point| seeds.iter().map(move |&seed| (point.clone(), seed)));
        let runs: Vec<(P, u64)> = runs.collect();
        let outcomes = self.each(what, &runs, |(point, seed)| trial(point, *seed));
        Grid { runs: runs.into_iter().zip(outcomes).map(|((point, seed), outcome)| (point, seed, outcome)).collect() }
    }
}

impl<P: PartialEq, O> Grid<P, O> {
    /// Creates a grid from outcomes that were measured otherwise.
    pub(crate) fn from_runs(runs: Vec<(P, u64, O)>) -> Self {
        Self { runs }
    }

    /// Returns point, seed and outcome of every run.
    pub(crate) fn runs(&self) -> impl Iterator<Item = &(P, u64, O)> {
        self.runs.iter()
    }

    /// Returns the outcomes of all runs.
    pub(crate) fn outcomes(&self) -> impl Iterator<Item = &O> {
        self.runs.iter().map(|(.., outcome)| outcome)
    }

    /// Returns the outcomes at the points for which `is` holds.
    pub(crate) fn of(&self, is: impl Fn(&P) -> bool) -> impl Iterator<Item = &O> {
        self.runs.iter().filter(move |(point, ..)| is(point)).map(|(.., outcome)| outcome)
    }

    /// Returns the outcomes at each point, in order.
    pub(crate) fn points(&self) -> Vec<At<'_, P, O>> {
        let mut points: Vec<At<'_, P, O>> = Vec::new();
        for (point, _, outcome) in &self.runs {
            match points.iter_mut().find(|at| at.point == point) {
                Some(at) => at.outcomes.push(outcome),
                None => points.push(At { point, outcomes: vec![outcome] }),
            }
        }
        points
    }

    /// Returns the outcome of the first seed at the first point for which `is` holds.
    pub(crate) fn first(&self, is: impl Fn(&P) -> bool) -> Option<&O> {
        self.of(is).next()
    }

    /// Returns whether a point for which `is` holds was run: an extent leaves some out, about which nothing can be claimed.
    pub(crate) fn has_run(&self, is: impl Fn(&P) -> bool) -> bool {
        self.first(is).is_some()
    }

    /// Returns the mean of a metric over the seeds at a point.
    pub(crate) fn mean(&self, point: &P, metric: impl Fn(&O) -> f64) -> f64 {
        mean(self.of(|at| at == point).map(metric))
    }

    /// Returns the statistics of a metric over the seeds at a point.
    pub(crate) fn stats(&self, point: &P, metric: impl Fn(&O) -> f64) -> Stats {
        Stats::of(self.of(|at| at == point).map(metric))
    }

    /// Returns the points as rows of a table.
    pub(crate) fn rows(&self) -> Rows<At<'_, P, O>> {
        Rows::of(self.points())
    }
}

impl<P: Serialize, O> Grid<P, O> {
    /// Returns the metrics of all runs as JSON.
    pub(crate) fn numbers(&self, metrics: &[Metric<O>]) -> Value {
        let found = |outcome: &O| -> Map<String, Value> {
            metrics.iter().map(|metric| (metric.head.to_owned(), json!((metric.value)(outcome)))).collect()
        };
        self.runs.iter().map(|(at, seed, outcome)| json!({ "at": at, "seed": seed, "found": found(outcome) })).collect()
    }
}

impl<P: Serialize, O: Serialize> Grid<P, O> {
    /// Returns all runs as JSON.
    pub(crate) fn data(&self) -> Value {
        self.runs.iter().map(|(point, seed, outcome)| json!({ "at": point, "seed": seed, "found": outcome })).collect()
    }
}

/// Returns all pairs of the values of two axes, the first axis outermost.
pub(crate) fn cross<A: Copy, B, I>(first: impl IntoIterator<Item = A>, second: I) -> impl Iterator<Item = (A, B)>
where
    I: IntoIterator<Item = B> + Clone,
{
    first.into_iter().flat_map(move |a| second.clone().into_iter().map(move |b| (a, b)))
}

/// Declared metric: the head of its column and its name in JSON, its decimals, and its value in a run.
#[derive(Debug)]
pub(crate) struct Metric<O> {
    pub(crate) head: &'static str,
    pub(crate) digits: usize,
    pub(crate) value: fn(&O) -> f64,
}

impl<O> Clone for Metric<O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<O> Copy for Metric<O> {}

/// Declares a metric.
pub(crate) const fn metric<O>(head: &'static str, digits: usize, value: fn(&O) -> f64) -> Metric<O> {
    Metric { head, digits, value }
}

impl<P, O> Rows<At<'_, P, O>> {
    /// Adds a column with the value of an axis.
    pub(crate) fn axis<S: ToString>(self, head: &str, of: impl Fn(&P) -> S) -> Self {
        self.column(head, |at| of(at.point))
    }

    /// Adds a column with the mean of a metric over the seeds.
    pub(crate) fn mean(self, head: &str, digits: usize, metric: impl Fn(&O) -> f64) -> Self {
        self.number(head, digits, |at| at.mean(&metric))
    }

    /// Adds a column with mean, minimum and maximum of a metric over the seeds.
    pub(crate) fn spread(self, head: &str, digits: usize, metric: impl Fn(&O) -> f64) -> Self {
        self.column(head, |at| format!("{:.digits$}", at.stats(&metric)))
    }

    /// Adds the means of these metrics.
    pub(crate) fn means(self, metrics: &[Metric<O>]) -> Self {
        metrics.iter().fold(self, |rows, metric| rows.mean(metric.head, metric.digits, metric.value))
    }

    /// Adds means and extremes of these metrics.
    pub(crate) fn spreads(self, metrics: &[Metric<O>]) -> Self {
        metrics.iter().fold(self, |rows, metric| rows.spread(metric.head, metric.digits, metric.value))
    }
}

#[cfg(test)]
mod tests {
    use timeous_testbed::{Progress, values};

    use super::super::run::Extent;
    use super::*;

    values! {
        /// Colours.
        enum Colour {
            Red = "red",
            DarkBlue = "dark blue",
        }
    }

    #[test]
    fn a_table_and_data_follow_from_axes_and_metrics() {
        let progress = Progress::silent();
        let run = Run { seed: 7, seeds: 2, real: false, extent: Extent::Usual, sabotage: None, progress: &progress };
        let grid = run.grid("colours", Colour::ALL, |colour, seed| *colour as u64 * 10 + seed);
        let rows = grid.rows().axis("colour", |colour| colour.name()).mean("mean", 1, |&n| n as f64);
        let table = rows.spread("all", 0, |&n| n as f64).table("t");
        assert_eq!(table.head, ["colour", "mean", "all"]);
        assert_eq!(table.rows, [["red", "7.5", "8 (7 to 8)"], ["dark blue", "17.5", "18 (17 to 18)"]]);
        assert_eq!(grid.data()[3], json!({ "at": "dark_blue", "seed": 8, "found": 18 }));
        assert_eq!(
            (grid.first(|colour| *colour == Colour::DarkBlue), grid.mean(&Colour::Red, |&n| n as f64)),
            (Some(&17), 7.5)
        );
    }
}
