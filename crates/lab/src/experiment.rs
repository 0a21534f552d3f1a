//! Framework of experiments: declared axes, metrics and claims, from which all output is made.

mod about;
mod claim;
mod error;
mod findings;
mod grid;
mod progress;
mod record;
mod run;
mod section;
mod stats;
mod text;

pub(crate) use about::{Experiment, Forms};
pub(crate) use claim::{Bound, Claim};
pub(crate) use error::LabError;
pub(crate) use findings::{Chart, Choice, Figure, Findings, Rows, Table, setup};
pub(crate) use grid::{At, Grid, Metric, cross, metric, values};
pub(crate) use progress::Progress;
pub(crate) use record::record;
pub(crate) use run::{Extent, Run};
pub(crate) use section::{section, summary};
pub(crate) use stats::{Sorted, Stats, least, mean, most};
pub(crate) use text::{markdown, text};
