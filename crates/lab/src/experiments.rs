//! The experiments by name. One line here makes one a command, a section of the report, and a row of the list.

use crate::experiment::Experiment;

/// All of them, in the order of the report.
pub(crate) fn all() -> Vec<&'static dyn Experiment> {
    // `&lai_age::LaiAge,` and so on, with `mod lai_age;` above.
    vec![]
}
