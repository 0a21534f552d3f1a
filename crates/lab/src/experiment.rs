//! Framework of experiments: declared axes, metrics and claims, from which all output is made.

mod claim;
mod expected;
mod findings;
mod grid;
mod output;
mod run;
mod sabotage;

pub(crate) use timeous_testbed::{Progress, RunError, Sorted, Stats, jain, least, mean, most, values};

pub(crate) use claim::{Bound, Claim};
#[cfg(test)]
pub(crate) use expected::virtual_experiments;
pub(crate) use expected::{Compared, surprises};
pub(crate) use findings::{Chart, Choice, Figure, Findings, Rows, Table, setup};
pub(crate) use grid::{At, Grid, Metric, cross, metric};
pub(crate) use output::{claims, record, section, summary, text};
pub(crate) use run::{Experiment, Extent, Forms, Run};
pub(crate) use sabotage::{Sabotage, sabotages};
