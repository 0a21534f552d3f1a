//! Rate traces: a piecewise constant rate over time, as text or in mahimahi's format.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use timeous_core::{Duration, Instant, Rate};

/// Bytes per delivery opportunity of mahimahi's traces: a packet of 1500 bytes.
const OPPORTUNITY: u64 = 1_500;
const MILLI: Duration = Duration::from_millis(1);

/// Error in a rate trace.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be read.
    #[error("cannot read the rate trace {path}: {source}")]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// A line is in neither format.
    #[error("line {line} of the rate trace: {text:?} is neither \"seconds kbps\" nor a count of milliseconds")]
    Line {
        /// Counted from one.
        line: usize,
        /// Text of the line.
        text: String,
    },
    /// Times do not increase from zero.
    #[error("step {step} of the rate trace: times must begin at 0 and increase")]
    Order {
        /// Counted from one.
        step: usize,
    },
    /// There are no lines.
    #[error("the rate trace is empty: give it at least one line such as \"0 1500\"")]
    Empty,
    /// A repeating trace with a rate of zero throughout, or with a period that ends before its last step.
    #[error("a rate trace that repeats needs a rate above zero and a period longer than its last time")]
    Period,
}

/// A piecewise constant rate over time. The rate of the last step lasts for ever, unless the trace repeats.
///
/// ```
/// use timeous_core::Rate;
/// use timeous_net::link::RateTrace;
///
/// let trace: RateTrace = "# seconds kbps\n0 1500\n10 400\n20 1500\n".parse().unwrap();
/// assert_eq!(trace.mean_rate(), Rate::from_bps(1_133_333));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateTrace {
    steps: Vec<(Duration, Rate)>,
    period: Option<Duration>,
    /// Capacity from zero to the end of the period, or of the span, in bits per second times nanoseconds.
    work: u128,
}

impl RateTrace {
    /// Creates a trace of steps, each a start time and a rate. The first begins at zero.
    pub fn new(steps: Vec<(Duration, Rate)>) -> Result<Self, TraceError> {
        let first = steps.first().ok_or(TraceError::Empty)?;
        let out_of_order = steps.windows(2).position(|pair| pair[0].0 >= pair[1].0).map(|index| index + 2);
        if let Some(step) = if first.0.is_zero() { out_of_order } else { Some(1) } {
            return Err(TraceError::Order { step });
        }
        let mut trace = Self { steps, period: None, work: 0 };
        trace.work = trace.work_until(trace.span());
        Ok(trace)
    }

    /// Makes the trace repeat after each `period`.
    pub fn repeating(mut self, period: Duration) -> Result<Self, TraceError> {
        let work = self.work_until(period);
        if work == 0 || self.steps.last().is_none_or(|(start, _)| *start >= period) {
            return Err(TraceError::Period);
        }
        self.period = Some(period);
        self.work = work;
        Ok(self)
    }

    /// Loads a trace in either format from a file.
    pub fn load(path: &Path) -> Result<Self, TraceError> {
        let text =
            std::fs::read_to_string(path).map_err(|source| TraceError::Read { path: path.to_owned(), source })?;
        text.parse()
    }

    /// Mean rate over the period; without repetition over the steps, the last of which counts as long as the one
    /// before.
    pub fn mean_rate(&self) -> Rate {
        let nanos = u128::from(self.period.unwrap_or_else(|| self.span()).as_nanos());
        Rate::from_bps(u64::try_from(self.work / nanos.max(1)).unwrap_or(u64::MAX))
    }

    /// Rate at `at`, and the time until which it holds.
    pub(super) fn rate_at(&self, at: Instant) -> (Rate, Instant) {
        let since_zero = at - Instant::ZERO;
        let into = match self.period {
            Some(period) => Duration::from_nanos(since_zero.as_nanos() % period.as_nanos()),
            None => since_zero,
        };
        let next = self.steps.partition_point(|(start, _)| *start <= into);
        let until = match (self.steps.get(next), self.period) {
            (Some((start, _)), _) => at + (*start - into),
            (None, Some(period)) => at + (period - into),
            (None, None) => Instant::FAR_FUTURE,
        };
        (self.steps[next - 1].1, until)
    }

    /// Duration and capacity of the whole periods within `work`.
    pub(super) fn whole_periods(&self, work: u128) -> (Duration, u128) {
        let Some(period) = self.period else { return (Duration::ZERO, 0) };
        let periods = u64::try_from(work / self.work).unwrap_or(u64::MAX);
        (period * periods, u128::from(periods) * self.work)
    }

    fn span(&self) -> Duration {
        match self.steps.as_slice() {
            [.., (before, _), (last, _)] => *last + (*last - *before),
            _ => Duration::from_secs(1),
        }
    }

    fn work_until(&self, end: Duration) -> u128 {
        let ends = self.steps.iter().skip(1).map(|(start, _)| (*start).min(end)).chain([end]);
        let lengths = self.steps.iter().zip(ends).map(|((start, rate), end)| (end - *start, rate));
        lengths.map(|(length, rate)| u128::from(length.as_nanos()) * u128::from(rate.as_bps())).sum()
    }

    fn from_opportunities(millis: &[u64]) -> Result<Self, TraceError> {
        let out_of_order = millis.windows(2).position(|pair| pair[0] > pair[1]).map(|index| index + 2);
        if let Some(step) = out_of_order {
            return Err(TraceError::Order { step });
        }
        let period = Duration::from_millis(*millis.last().ok_or(TraceError::Empty)?);
        let mut steps: Vec<(Duration, Rate)> = Vec::new();
        for group in millis.chunk_by(|a, b| (*a).max(1) == (*b).max(1)) {
            // An opportunity at the end of a millisecond determines the rate of that millisecond.
            let end = Duration::from_millis(group[0].max(1));
            let idle_since = steps.pop().map_or(Duration::ZERO, |(start, _)| start);
            if idle_since < end - MILLI {
                steps.push((idle_since, Rate::ZERO));
            }
            steps.push((end - MILLI, Rate::from_bytes_in(OPPORTUNITY * group.len() as u64, MILLI)));
            steps.push((end, Rate::ZERO));
        }
        steps.pop();
        Self::new(steps)?.repeating(period)
    }
}

impl FromStr for RateTrace {
    type Err = TraceError;

    /// Parses lines of "seconds kbps" (or with a comma, and an optional line of column names), the last rate of which
    /// lasts for ever; or mahimahi's format: one time in milliseconds per line, at which 1500 bytes pass; the last is
    /// the period of repetition. `#` begins a comment.
    fn from_str(text: &str) -> Result<Self, TraceError> {
        let mut steps = Vec::new();
        let mut opportunities = Vec::new();
        for (index, whole) in text.lines().enumerate() {
            let line = whole.split('#').next().unwrap_or_default().trim();
            let fields: Vec<&str> =
                line.split(|c: char| c == ',' || c.is_whitespace()).filter(|f| !f.is_empty()).collect();
            let bad = || TraceError::Line { line: index + 1, text: whole.to_owned() };
            match fields.as_slice() {
                [] => {}
                [millis] if steps.is_empty() => opportunities.push(millis.parse().map_err(|_| bad())?),
                [seconds, kbps] if opportunities.is_empty() => match (number(seconds), number(kbps)) {
                    (Some(seconds), Some(kbps)) => {
                        steps.push((Duration::from_secs_f64(seconds), Rate::from_bps((kbps * 1e3).round() as u64)));
                    }
                    (None, None) if steps.is_empty() => {}
                    _ => return Err(bad()),
                },
                _ => return Err(bad()),
            }
        }
        if opportunities.is_empty() { Self::new(steps) } else { Self::from_opportunities(&opportunities) }
    }
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
}
