//! What an experiment is: it says what it is about, runs, and gives findings from which every form of output is made.

mod about;
mod claim;
mod error;
mod findings;
mod progress;
mod record;
mod run;
mod section;
mod text;

pub(crate) use about::{About, Forms};
pub(crate) use claim::{Bound, Claim};
pub(crate) use error::LabError;
pub(crate) use findings::{Choice, Figure, Findings, Table};
pub(crate) use progress::Progress;
pub(crate) use record::record;
pub(crate) use run::{Extent, Run};
pub(crate) use section::{section, summary};
pub(crate) use text::text;

/// An experiment of a paper, as a command of its own.
pub(crate) trait Experiment: Sync {
    /// What it is about.
    fn about(&self) -> About;

    /// Runs it, in the form that `run` asks for.
    ///
    /// # Errors
    /// [`LabError`] if it could not be run, never because it went badly: that is what claims are for.
    fn run(&self, run: &Run<'_>) -> Result<Findings, LabError>;
}
