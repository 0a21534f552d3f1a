//! What can be said of an experiment before it runs.

/// What can be said of an experiment before it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct About {
    /// Its command, such as `lai-age`.
    pub(crate) name: &'static str,
    /// What it shows, in a few words.
    pub(crate) title: &'static str,
    /// Where it comes from: authors, section, figure.
    pub(crate) source: &'static str,
    /// What the paper reports.
    pub(crate) paper: &'static str,
    /// In which forms it runs.
    pub(crate) forms: Forms,
    /// How many seeds it takes unless told.
    pub(crate) seeds: u32,
    /// About how long it takes, for people: `5 s; real 1 min`.
    pub(crate) takes: &'static str,
}

impl About {
    /// How many seeds a form takes unless told: what is real is not more random for a seed, and takes one, unless the
    /// seed matters there, too, or there is no other form.
    pub(crate) fn seeds_of(&self, real: bool) -> u32 {
        if real && self.forms == Forms::Both { 1 } else { self.seeds }
    }
}

/// In which forms an experiment runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forms {
    /// In virtual time: the same output for the same seed, on every machine.
    Virtual,
    /// On this machine's kernel.
    Real,
    /// Both.
    Both,
    /// Both, and runs of either differ by what the seed chooses.
    BothBySeed,
}

impl Forms {
    /// Whether the form is among them.
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
