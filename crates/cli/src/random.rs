//! Unpredictable numbers from the system's random generator.

use crate::failure::Failure;

/// Returns `N` random words.
pub(crate) fn words<const N: usize>() -> Result<[u32; N], Failure> {
    let mut words = [0; N];
    for word in &mut words {
        let mut bytes = [0; 4];
        rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
            .map_err(|error| Failure::Environment(format!("no random numbers: {error}")))?;
        *word = u32::from_ne_bytes(bytes);
    }
    Ok(words)
}
