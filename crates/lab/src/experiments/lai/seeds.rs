//! Claims over several seeds: each is judged by the median seed, and shown with the spread.

use crate::experiment::Claim;

/// Merges the claims of all seeds, which are the same in the same order, into one of each kind.
pub(super) fn over_seeds(of_seeds: Vec<Vec<Claim>>) -> Vec<Claim> {
    let kinds = of_seeds.first().map_or(0, Vec::len);
    let of_kind = |kind: usize| of_seeds.iter().filter_map(|claims| claims.get(kind)).cloned().collect();
    (0..kinds).filter_map(|kind| of_one_kind(of_kind(kind))).collect()
}

fn of_one_kind(mut claims: Vec<Claim>) -> Option<Claim> {
    claims.sort_by(|a, b| a.value.total_cmp(&b.value));
    let middle = claims.get(claims.len().checked_sub(1)? / 2)?.clone();
    let (least, most) = (claims.first()?.value, claims.last()?.value);
    let measured = match claims.len() {
        1 => middle.measured.clone(),
        seeds => format!("{} (median of {seeds} seeds; {least:.2} to {most:.2})", middle.measured),
    };
    Some(Claim { measured, ..middle })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_seed_speaks_and_the_others_are_its_spread() {
        let claim = |value: f64| vec![Claim::new("x", "", format!("{value}"), value).pass(2.0..)];
        let claims = over_seeds([5.0, 1.0, 2.0].map(claim).to_vec());
        assert_eq!(claims.len(), 1);
        assert_eq!((claims[0].value, claims[0].passes()), (2.0, Some(true)));
        assert_eq!(claims[0].measured, "2 (median of 3 seeds; 1.00 to 5.00)");
        assert_eq!(over_seeds(vec![claim(3.0)]), claim(3.0), "one seed has no spread");
        assert!(over_seeds(Vec::new()).is_empty());
    }
}
