//! Sabotage: a part of an experiment broken on purpose, and the claims that have to fall with it.

use super::claim::Claim;

/// A part of an experiment that a run breaks on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sabotage {
    /// Name on the command line, such as `silent`.
    pub(crate) name: &'static str,
    /// Description of the broken part.
    pub(crate) what: &'static str,
    /// Claims that must fall: the text of a claim, or the beginning of several, each of which must fall.
    pub(crate) falls: &'static [&'static str],
}

/// Declares sabotages: `NAME = "name", "description of the broken part" => ["claim that must fall"];`.
macro_rules! sabotages {
    ($($(#[$doc:meta])* $vis:vis $constant:ident = $name:expr, $what:expr => $falls:expr;)*) => {
        $($(#[$doc])* $vis const $constant: $crate::experiment::Sabotage =
            $crate::experiment::Sabotage { name: $name, what: $what, falls: &$falls };)*
    };
}
pub(crate) use sabotages;

/// Result of a sabotage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Damage {
    /// Claims that fell, listed or not: they hold without the sabotage, and do not with it.
    pub(crate) fell: Vec<String>,
    /// Contradictions to the list: listed claims that still hold, do not hold without the sabotage, or do not exist.
    pub(crate) wrong: Vec<String>,
}

impl Sabotage {
    /// Compares the claims of a sound run and a sabotaged one.
    pub(crate) fn damage(&self, sound: &[Claim], broken: &[Claim]) -> Damage {
        let stands = |what: &str| broken.iter().find(|claim| claim.what == what).is_some_and(holds);
        let fell = sound.iter().filter(|claim| holds(claim) && !stands(&claim.what));
        let mut wrong = Vec::new();
        for &listed in self.falls {
            let is_exact = sound.iter().any(|claim| claim.what == listed);
            let those = sound.iter().map(|claim| (claim, claim.what.as_str()));
            let those = those.filter(|(_, what)| if is_exact { *what == listed } else { what.starts_with(listed) });
            let those: Vec<_> = those.collect();
            if those.is_empty() {
                wrong.push(format!("no claim begins with: {listed}"));
            }
            wrong.extend(those.into_iter().filter_map(|(claim, what)| match (holds(claim), stands(what)) {
                (true, false) => None,
                (true, true) => Some(format!("still holds: {what}")),
                (false, _) => Some(format!("does not hold without the sabotage: {what}")),
            }));
        }
        if self.falls.is_empty() {
            wrong.push("no claim is listed that has to fall".to_owned());
        }
        Damage { fell: fell.map(|claim| claim.what.clone()).collect(), wrong }
    }
}

/// Whether a claim keeps its minimum, or its goal if there is no minimum.
fn holds(claim: &Claim) -> bool {
    claim.passes().or_else(|| claim.reaches_aim()) == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SABOTAGE: Sabotage = Sabotage { name: "s", what: "", falls: &["rate of", "age"] };

    fn claims(values: [f64; 4]) -> Vec<Claim> {
        let names = ["rate of A", "rate of B", "age", "loss"];
        names.into_iter().zip(values).map(|(what, value)| Claim::number(what, "", 0, value).pass(1.0..)).collect()
    }

    #[test]
    fn listed_claims_have_to_fall() {
        let sound = claims([1.0; 4]);
        let damage = SABOTAGE.damage(&sound, &claims([0.0, 0.0, f64::NAN, 1.0]));
        assert_eq!(
            damage,
            Damage { fell: ["rate of A", "rate of B", "age"].map(String::from).to_vec(), wrong: vec![] }
        );
        let damage = SABOTAGE.damage(&sound, &claims([0.0, 1.0, 0.0, 0.0]));
        assert_eq!(damage.wrong, ["still holds: rate of B"]);
        assert_eq!(damage.fell, ["rate of A", "age", "loss"], "also one that is not listed");
    }

    #[test]
    fn a_claim_that_fails_anyway_or_is_not_there_proves_nothing() {
        let damage = SABOTAGE.damage(&claims([0.0, 1.0, 1.0, 1.0]), &claims([0.0; 4]));
        assert_eq!(damage.wrong, ["does not hold without the sabotage: rate of A"]);
        let other = Sabotage { falls: &["delay"], ..SABOTAGE };
        assert_eq!(other.damage(&claims([1.0; 4]), &claims([0.0; 4])).wrong, ["no claim begins with: delay"]);
        let none = Sabotage { falls: &[], ..SABOTAGE };
        assert!(!none.damage(&claims([1.0; 4]), &claims([0.0; 4])).wrong.is_empty());
        assert_eq!(SABOTAGE.damage(&claims([1.0; 4]), &[]).fell.len(), 4, "a claim that is gone has fallen");
        let goal = |value| [Claim::number("rate", "", 0, value).aim(1.0..)];
        let exact = Sabotage { falls: &["rate"], ..SABOTAGE };
        assert_eq!(exact.damage(&goal(1.0), &goal(0.0)).fell, ["rate"], "a goal counts where there is no minimum");
        let both = [&goal(1.0)[..], &claims([0.0; 4])].concat();
        assert!(exact.damage(&both, &goal(0.0)).wrong.is_empty(), "a text that is a claim's is no beginning");
    }
}
