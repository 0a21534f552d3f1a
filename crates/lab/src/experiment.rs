//! Interface of experiments: a description, a run, and findings from which all output is made.

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
pub(crate) use text::{markdown, text};

/// An experiment of a paper, with a subcommand of its own.
pub(crate) trait Experiment: Sync {
    /// Description of the experiment.
    fn about(&self) -> About;

    /// Runs the experiment, in the form given by `run`.
    ///
    /// # Errors
    /// [`LabError`] if it could not be run; bad results are reported as claims.
    fn run(&self, run: &Run<'_>) -> Result<Findings, LabError>;
}
