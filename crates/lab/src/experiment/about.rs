//! Description of an experiment, and the function that runs it.

use super::error::LabError;
use super::findings::Findings;
use super::run::{Extent, Run};

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
    /// Runs it in the form given by the parameters. [`LabError`] if it could not be run; bad results are claims.
    pub(crate) run: fn(&Run<'_>) -> Result<Findings, LabError>,
}

impl Experiment {
    /// Default number of seeds in a form: one for a real run, which is not more random for a seed, unless the seed
    /// matters there, too, or there is no other form.
    pub(crate) fn seeds_of(&self, real: bool) -> u32 {
        if real && self.forms == Forms::Both { 1 } else { self.seeds }
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
            Extent::Small => words.push_str(" --extent small"),
            Extent::Usual => {}
            Extent::Full => words.push_str(" --extent full"),
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
    fn a_form_is_there_or_not() {
        let included = |forms: Forms| [false, true].map(|real| forms.include(real));
        assert_eq!(
            [Forms::Virtual, Forms::Real, Forms::Both, Forms::BothBySeed].map(included),
            [[true, false], [false, true], [true, true], [true, true]]
        );
    }
}
