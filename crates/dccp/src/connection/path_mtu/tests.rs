//! Tests of path MTU discovery without a connection.

use super::*;

/// IPv4 and UDP.
const HEADERS: usize = 28;

/// Lets the search run over a path of `mtu`, where one of the numbered probes may get lost; returns the number of probes.
fn run(search: &mut PathMtu, mtu: usize, lost: Option<u64>) -> u64 {
    let mut probes = 0;
    for _ in 0..200 {
        while let Some(size) = search.poll_probe() {
            probes += 1;
            search.sent(size, Seq::new(probes));
            if size + HEADERS <= mtu && lost != Some(probes) {
                search.answered(Seq::new(probes));
            }
        }
        if search.is_done() {
            return probes;
        }
        search.timed_out();
    }
    panic!("no end of {search:?}");
}

fn search(bound: usize) -> PathMtu {
    let mut search = PathMtu::new(1_200, bound, HEADERS);
    search.search();
    search
}

#[test]
fn a_search_finds_the_largest_common_size_that_passes() {
    for (mtu, found) in [(1_228, 1_200), (1_280, 1_252), (1_300, 1_252), (1_400, 1_372), (1_492, 1_464), (1_500, 1_472)]
    {
        let mut search = search(8_972);
        let probes = run(&mut search, mtu, None);
        assert_eq!(search.size(), found, "of {mtu}");
        assert!(probes <= 12, "{probes} probes for {mtu}");
    }
}

#[test]
fn one_probe_suffices_on_ethernet_and_larger_ones_leave_only_if_wanted() {
    let mut search = search(8_972);
    assert_eq!((run(&mut search, 9_000, None), search.size()), (1, 1_472));
    assert!(search.want_more() && !search.want_more());
    assert_eq!((run(&mut search, 9_000, None), search.size()), (1, 8_972));
}

#[test]
fn the_bound_is_kept_and_tried() {
    for (bound, found) in [(900, 1_200), (1_200, 1_200), (1_300, 1_300), (1_472, 1_472)] {
        let mut search = search(bound);
        run(&mut search, 9_000, None);
        assert_eq!(search.size(), found);
        search.want_more();
        run(&mut search, 9_000, None);
        assert_eq!(search.size(), found, "at most {bound}");
    }
}

#[test]
fn a_lost_probe_is_repeated() {
    for lost in 1..6 {
        let mut search = search(8_972);
        run(&mut search, 1_400, Some(lost));
        assert_eq!(search.size(), 1_372, "without the {lost}th");
    }
}

#[test]
fn a_size_that_this_host_refuses_is_not_waited_for() {
    let mut search = search(8_972);
    assert_eq!(search.poll_probe(), Some(1_472));
    search.sent(1_472, Seq::new(1));
    search.refused(1_400);
    assert_eq!(search.poll_probe(), None, "that was none of ours");
    search.refused(1_472);
    assert!(search.poll_probe().is_some_and(|size| size < 1_472));
}

#[test]
fn three_large_losses_and_an_answer_to_a_small_probe_alone_are_a_black_hole() {
    let mut search = search(8_972);
    run(&mut search, 1_500, None);
    for _ in 0..3 {
        search.on_fate(1_380, Seq::new(7), false, false);
    }
    let probes: Vec<_> = std::iter::from_fn(|| search.poll_probe()).collect();
    assert_eq!(probes, [1_472, 1_472, 0, 1_472]);
    for (size, seq) in probes.into_iter().zip(10..) {
        search.sent(size, Seq::new(seq));
    }
    assert_eq!(search.answered(Seq::new(12)), None);
    assert_eq!(search.timed_out(), Some(SizeChange { size: 1_200, is_black_hole: true }));
    run(&mut search, 1_400, None);
    assert_eq!(search.size(), 1_372, "the search goes on below");
}

#[test]
fn losses_of_small_packets_or_with_larger_arrivals_between_them_and_an_outage_change_nothing() {
    let mut search = search(8_972);
    run(&mut search, 1_500, None);
    for _ in 0..10 {
        search.on_fate(1_100, Seq::new(7), false, true);
        search.on_fate(1_400, Seq::new(7), false, false);
        search.on_fate(1_450, Seq::new(7), true, false);
    }
    assert!(search.is_done() && !search.has_probes());
    search.on_fate(1_400, Seq::new(7), false, true);
    assert!(search.has_probes(), "a timeout is reason enough to look");
    for round in 0..20 {
        while let Some(size) = search.poll_probe() {
            search.sent(size, Seq::new(100 + round));
        }
        if search.is_done() {
            break;
        }
        assert_eq!(search.timed_out(), None, "nothing passes");
    }
    assert_eq!((search.is_done(), search.size()), (true, 1_472));
}

#[test]
fn a_path_below_the_base_gets_packets_that_every_host_must_take() {
    let mut search = search(8_972);
    run(&mut search, 1_228, None);
    search.on_fate(1_180, Seq::new(7), false, true);
    let mut seq = 100;
    let mut change = None;
    while change.is_none() && seq < 200 {
        while let Some(size) = search.poll_probe() {
            seq += 1;
            search.sent(size, Seq::new(seq));
            if size == 0 {
                search.answered(Seq::new(seq));
            }
        }
        change = search.timed_out();
    }
    assert_eq!(change, Some(SizeChange { size: Config::FALLBACK_MPS, is_black_hole: true }));
}

#[test]
fn a_complete_search_begins_anew_after_a_while() {
    let mut search = search(8_972);
    run(&mut search, 1_400, None);
    assert_eq!(search.timed_out(), None);
    run(&mut search, 1_500, None);
    assert_eq!(search.size(), 1_472, "the path has become wider");
}

/// Lets large packets go unanswered until a black hole is found.
fn fall(search: &mut PathMtu) -> SizeChange {
    for _ in 0..3 {
        search.on_sent(search.size(), || true);
    }
    let probes: Vec<_> = std::iter::from_fn(|| search.poll_probe()).collect();
    assert_eq!(probes, [search.size(), search.size(), 0, search.size()]);
    for (size, seq) in probes.into_iter().zip(1_000..) {
        search.sent(size, Seq::new(seq));
    }
    assert_eq!(search.answered(Seq::new(1_002)), None);
    search.timed_out().expect("large packets do not pass")
}

#[test]
fn large_packets_without_an_answer_are_a_black_hole_before_a_timeout() {
    let mut search = search(8_972);
    run(&mut search, 1_500, None);
    for _ in 0..2 {
        search.on_sent(1_400, || true);
    }
    search.on_fate(1_400, Seq::new(7), true, false);
    for _ in 0..2 {
        search.on_sent(1_400, || true);
    }
    assert!(!search.has_probes(), "one had an answer");
    search.on_fate(1_400, Seq::new(7), true, false);
    for _ in 0..100 {
        search.on_sent(1_400, || false);
        search.on_sent(1_100, || true);
    }
    assert!(!search.has_probes(), "not overdue, or small");
    search.on_fate(1_400, Seq::new(7), true, false);
    assert_eq!(fall(&mut search), SizeChange { size: 1_200, is_black_hole: true });
}

#[test]
fn the_second_black_hole_ends_the_search_until_it_begins_anew() {
    let mut search = search(8_972);
    run(&mut search, 1_500, None);
    fall(&mut search);
    run(&mut search, 1_500, None);
    assert_eq!(search.size(), 1_472, "it was no black hole, or is none any more");
    fall(&mut search);
    assert!(search.is_done() && search.size() == 1_200 && !search.has_probes());
    assert_eq!(search.timed_out(), None, "minutes later");
    run(&mut search, 1_500, None);
    assert_eq!(search.size(), 1_472);
    fall(&mut search);
    assert!(!search.is_done(), "that was the first of a new search");
}

#[test]
fn one_answer_of_the_present_size_ends_a_check() {
    let mut search = search(8_972);
    run(&mut search, 1_500, None);
    for _ in 0..3 {
        search.on_sent(1_472, || true);
    }
    for seq in 1..5 {
        let size = search.poll_probe().unwrap();
        search.sent(size, Seq::new(seq));
    }
    assert_eq!(search.answered(Seq::new(2)), None);
    assert_eq!(search.timed_out(), None);
    assert!(search.is_done() && !search.is_waiting() && search.size() == 1_472);
}
