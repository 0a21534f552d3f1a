//! Random number generator: reproducible from a seed, or unpredictable from a key; callers pass it in.

use std::fmt;

use rand_core::{RngCore, SeedableRng, impls};
use rand_xoshiro::Xoshiro256PlusPlus;
use siphasher::sip::SipHasher24;

/// Random number generator: one seed or key gives the same numbers on every machine.
///
/// [`from_seed`](Self::from_seed) is for simulations: loss, jitter, and the sequence numbers of simulated hosts. An endpoint
/// on a real network takes initial sequence numbers, timestamp offsets and ports from one [`from_key`](Self::from_key), with
/// a key from the system.
///
/// ```
/// use timeous_core::Rng;
/// let (mut a, mut b) = (Rng::from_seed(7), Rng::from_seed(7));
/// assert_eq!(a.next_u64(), b.next_u64());
/// ```
#[derive(Clone, Debug)]
pub struct Rng(Generator);

#[derive(Clone, Debug)]
enum Generator {
    Seeded(Xoshiro256PlusPlus),
    Keyed(CounterMode),
}

/// SipHash-2-4 (Aumasson & Bernstein 2012) of a counter: a pseudorandom function as RFC 6528 §3 asks for, whose outputs
/// reveal neither the key nor each other.
#[derive(Clone)]
struct CounterMode {
    key: [u8; 16],
    counter: u64,
}

impl RngCore for CounterMode {
    fn next_u64(&mut self) -> u64 {
        let hash = SipHasher24::new_with_key(&self.key).hash(&self.counter.to_le_bytes());
        self.counter += 1;
        hash
    }

    fn next_u32(&mut self) -> u32 {
        self.next_u64() as u32
    }

    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        impls::fill_bytes_via_next(self, bytes);
    }
}

impl fmt::Debug for CounterMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The key is a secret.
        f.debug_struct("CounterMode").finish_non_exhaustive()
    }
}

impl Rng {
    /// Creates the generator of `seed`. Its state follows from its numbers: not for what a peer must not guess.
    pub fn from_seed(seed: u64) -> Self {
        Self(Generator::Seeded(Xoshiro256PlusPlus::seed_from_u64(seed)))
    }

    /// Creates the generator of a secret `key`. Its numbers, however many, do not let a peer guess others (RFC 4086, RFC 6528).
    ///
    /// ```
    /// let mut rng = timeous_core::Rng::from_key([7; 16]);
    /// assert!(rng.is_unpredictable() && rng.fork().is_unpredictable());
    /// ```
    pub fn from_key(key: [u8; 16]) -> Self {
        Self(Generator::Keyed(CounterMode { key, counter: 0 }))
    }

    /// Returns whether its numbers cannot be guessed from earlier ones.
    pub fn is_unpredictable(&self) -> bool {
        matches!(self.0, Generator::Keyed(_))
    }

    /// Creates another generator of the same kind, independent of this one's further numbers.
    pub fn fork(&mut self) -> Self {
        if !self.is_unpredictable() {
            return Self::from_seed(self.next_u64());
        }
        let mut key = [0; 16];
        self.fill(&mut key);
        Self::from_key(key)
    }

    /// Returns 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.core().next_u64()
    }

    /// Returns 32 random bits.
    pub fn next_u32(&mut self) -> u32 {
        self.core().next_u32()
    }

    #[inline]
    fn core(&mut self) -> &mut dyn RngCore {
        match &mut self.0 {
            Generator::Seeded(generator) => generator,
            Generator::Keyed(generator) => generator,
        }
    }

    /// Returns a number in `0..bound`, or 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns a number in `0.0..1.0`.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns `true` with probability `p`.
    pub fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// Fills `bytes` with random bits.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.core().fill_bytes(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_these_numbers_everywhere() {
        let mut rng = Rng::from_seed(1);
        let first: Vec<u64> = (0..3).map(|_| rng.next_u64()).collect();
        assert_eq!(first, [14971601782005023387, 13781649495232077965, 1847458086238483744]);
    }

    #[test]
    fn keyed_numbers_are_siphash_2_4_of_a_counter_and_debug_output_hides_the_key() {
        let key = std::array::from_fn(|n| n as u8);
        // Input 00, 01, … 07 of the reference's test vectors.
        let counter = u64::from_le_bytes(std::array::from_fn(|n| n as u8));
        assert_eq!(CounterMode { key, counter }.next_u64(), 0x93f5_f579_9a93_2462);
        let mut rng = Rng::from_key(key);
        assert_ne!(rng.next_u64(), rng.next_u64());
        assert_ne!(rng.fork().next_u64(), rng.fork().next_u64());
        assert_eq!(format!("{rng:?}"), "Rng(Keyed(CounterMode { .. }))");
    }

    #[test]
    fn below_stays_below() {
        let mut rng = Rng::from_seed(3);
        assert!((0..1000).all(|_| rng.below(7) < 7));
        assert_eq!(rng.below(0), 0);
    }
}
