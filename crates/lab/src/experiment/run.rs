//! What a run is asked for, and what helps it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use super::about::About;
use super::progress::Progress;

/// How much of an experiment is run, where it has cells to leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Extent {
    /// A few cells, to see that it runs.
    Small,
    /// As many as say what there is to say.
    #[default]
    Usual,
    /// All cells.
    Full,
}

/// What a run is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run<'a> {
    /// The first seed of its randomness.
    pub(crate) seed: u64,
    /// How many seeds, one after the other from `seed` on.
    pub(crate) seeds: u32,
    /// On this machine's kernel rather than in virtual time.
    pub(crate) real: bool,
    /// How much of it.
    pub(crate) extent: Extent,
    /// Where to tell how far it is.
    pub(crate) progress: &'a Progress,
}

impl Run<'_> {
    /// The seeds, in order.
    pub(crate) fn seeds(&self) -> impl Iterator<Item = u64> + use<> {
        let first = self.seed;
        (0..u64::from(self.seeds)).map(move |i| first.wrapping_add(i))
    }

    /// Does `work` for each of `items` on as many threads as there are cores. The results are in the order of the items,
    /// whatever the threads do.
    pub(crate) fn each<I: Sync, T: Send>(&self, what: &str, items: &[I], work: impl Fn(&I) -> T + Sync) -> Vec<T> {
        let task = self.progress.task(what, items.len() as u64);
        let next = AtomicU32::new(0);
        let done = Mutex::new(Vec::with_capacity(items.len()));
        let worker = || {
            while let Some((index, item)) = {
                let index = next.fetch_add(1, Ordering::Relaxed) as usize;
                items.get(index).map(|item| (index, item))
            } {
                let result = work(item);
                done.lock().expect("no worker panics while it holds the results").push((index, result));
                task.step();
            }
        };
        let threads = thread::available_parallelism().map_or(1, usize::from).min(items.len());
        thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(worker))));
        let mut done = done.into_inner().expect("no worker panics while it holds the results");
        done.sort_unstable_by_key(|(index, _)| *index);
        done.into_iter().map(|(_, result)| result).collect()
    }
}

/// The command that does the same again.
pub(super) fn command(about: &About, run: &Run<'_>) -> String {
    let mut words = format!("timeous-lab {} --seed {}", about.name, run.seed);
    if run.seeds != about.seeds_of(run.real) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_many_threads_are_in_the_order_of_the_items() {
        let progress = Progress::silent();
        let run = Run { seed: 7, seeds: 100, real: false, extent: Extent::Usual, progress: &progress };
        let seeds: Vec<u64> = run.seeds().collect();
        assert_eq!(run.each("seeds", &seeds, |seed| seed * 2), (7..107).map(|seed| seed * 2).collect::<Vec<_>>());
        assert!(run.each("nothing", &[], |seed: &u64| *seed).is_empty());
    }
}
