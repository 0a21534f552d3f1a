//! Access list of a listener: passphrases and rights, by stream ID.

use std::collections::BTreeMap;
use std::fmt;
use std::thread;

use timeous_seal::{
    Access, AccessTable, Admission, Call, CredentialError, Intent, MAX_STREAM_ID, MIN_PASSPHRASE, Passphrase,
};

use super::derived::derived;

/// Passphrases for sending and receiving, by stream ID: the file of the key `access`.
///
/// Each line has a stream ID (`*`: any other, also none), a right (`publish`: the caller may send; `play`: it may receive;
/// `both`) and a passphrase, with blanks between them. `#` begins a comment. A stream has at most one passphrase for each
/// right, and if it has a line, those of `*` do not hold for it.
///
/// ```
/// use timeous::AccessList;
/// use timeous::seal::{Access, Admission, Call, Intent, Refusal};
/// let list = AccessList::parse("camera1 publish correct-horse-battery # from the yard\ncamera1 play staple-of-horses")?;
/// assert!(matches!(list.admit(&Call::new("camera1", Intent::Play)), Admission::With(_)));
/// let unknown = list.admit(&Call::new("camera2", Intent::Play));
/// assert_eq!(unknown, Admission::Refused(Refusal::UnknownStream));
/// # Ok::<(), timeous::AccessListError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct AccessList(AccessTable);

impl AccessList {
    /// Reads a list, and derives the key of each passphrase: about 50 ms each, on all processors.
    ///
    /// # Errors
    /// [`AccessListError`] with the number of the first wrong line. It shows no passphrase.
    ///
    /// # Panics
    /// If a thread panics that derives keys.
    pub fn parse(text: &str) -> Result<Self, AccessListError> {
        let lines = lines(text)?;
        let mut list = Self::default();
        for (line, passphrase) in lines.iter().zip(keys(&lines)) {
            let passphrase = passphrase.map_err(|error| line.wrong(AccessListProblem::Passphrase(error)))?;
            for intent in [Intent::Publish, Intent::Play].into_iter().filter(|intent| line.grants(*intent)) {
                list.0.grant(line.stream_id, intent, passphrase.clone());
            }
        }
        Ok(list)
    }

    /// Admits callers of this intent only, for a listener that only sends or only receives.
    #[must_use]
    pub fn only(self, intent: Intent) -> Self {
        Self(self.0.only(intent))
    }

    /// Returns its passphrases and rights.
    pub(crate) fn into_table(self) -> AccessTable {
        self.0
    }
}

impl Access for AccessList {
    fn admit(&self, call: &Call<'_>) -> Admission {
        self.0.admit(call)
    }
}

/// Derives the keys of all lines, in order, by as many threads as there are processors.
fn keys(lines: &[Line<'_>]) -> Vec<Result<Passphrase, CredentialError>> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let part = lines.len().div_ceil(threads).max(1);
    thread::scope(|scope| {
        let derive = |lines: &[Line<'_>]| lines.iter().map(|line| derived(line.passphrase)).collect::<Vec<_>>();
        let threads: Vec<_> = lines.chunks(part).map(|lines| scope.spawn(move || derive(lines))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("deriving a key does not panic")).collect()
    })
}

/// A line of the list.
struct Line<'a> {
    number: usize,
    stream_id: &'a str,
    rights: Rights,
    passphrase: &'a str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Rights {
    Publish,
    Play,
    Both,
}

impl Line<'_> {
    fn grants(&self, intent: Intent) -> bool {
        match self.rights {
            Rights::Publish => intent == Intent::Publish,
            Rights::Play => intent == Intent::Play,
            Rights::Both => true,
        }
    }

    fn wrong(&self, problem: AccessListProblem) -> AccessListError {
        AccessListError { line: self.number, problem }
    }
}

/// Reads and checks all lines.
fn lines(text: &str) -> Result<Vec<Line<'_>>, AccessListError> {
    let mut lines: Vec<Line<'_>> = Vec::new();
    // Line of each grant before, by stream and right.
    let mut seen = BTreeMap::new();
    for (at, text) in text.lines().enumerate() {
        let number = at + 1;
        let Some(line) = line(number, text).map_err(|problem| AccessListError { line: number, problem })? else {
            continue;
        };
        for intent in [Intent::Publish, Intent::Play].into_iter().filter(|intent| line.grants(*intent)) {
            if let Some(first) = seen.insert((line.stream_id, intent == Intent::Publish), number) {
                return Err(line.wrong(AccessListProblem::Repeated { first }));
            }
        }
        lines.push(line);
    }
    Ok(lines)
}

/// Reads one line; `None` if it has nothing but a comment.
fn line(number: usize, text: &str) -> Result<Option<Line<'_>>, AccessListProblem> {
    let mut words = text.split_whitespace();
    let Some(stream_id) = words.next().filter(|word| !word.starts_with('#')) else { return Ok(None) };
    let rights = match words.next() {
        Some("publish") => Rights::Publish,
        Some("play") => Rights::Play,
        Some("both") => Rights::Both,
        _ => return Err(AccessListProblem::Right),
    };
    let passphrase = words.next().filter(|word| !word.starts_with('#')).ok_or(AccessListProblem::NoPassphrase)?;
    if words.next().is_some_and(|word| !word.starts_with('#')) {
        return Err(AccessListProblem::Blanks);
    }
    if stream_id.len() > MAX_STREAM_ID {
        return Err(AccessListProblem::LongStreamId);
    }
    if passphrase.chars().count() < MIN_PASSPHRASE {
        return Err(AccessListProblem::Passphrase(CredentialError::ShortPassphrase));
    }
    Ok(Some(Line { number, stream_id, rights, passphrase }))
}

/// Wrong line of an access list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
#[non_exhaustive]
pub struct AccessListError {
    /// Number of the line, from 1.
    pub line: usize,
    /// The mistake.
    pub problem: AccessListProblem,
}

/// Mistake in a line. It shows none of the line's words, of which one may be a passphrase in the wrong place.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AccessListProblem {
    /// The second word is no right.
    Right,
    /// The third word is missing.
    NoPassphrase,
    /// There is a fourth word.
    Blanks,
    /// The stream ID has more than 512 bytes.
    LongStreamId,
    /// The passphrase cannot be used.
    Passphrase(CredentialError),
    /// An earlier line grants the same.
    Repeated {
        /// Number of that line.
        first: usize,
    },
}

impl fmt::Display for AccessListProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Right => f.write_str("after the stream ID comes publish, play or both"),
            Self::NoPassphrase => f.write_str("the passphrase is missing: `timeous passphrase` makes one"),
            Self::Blanks => f.write_str("a passphrase has no blanks here, and a comment begins with #"),
            Self::LongStreamId => write!(f, "{}", CredentialError::LongStreamId),
            Self::Passphrase(error) => write!(f, "{error}"),
            Self::Repeated { first } => write!(f, "line {first} has a passphrase for this stream and right already"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use timeous_seal::Refusal;

    use super::*;

    const LIST: &str = "# cameras\n\
        camera1  publish  correct-horse-1   # the yard\n\
        camera1  play     correct-horse-2\n\
        \n\
        studio both correct-horse-1\n\
        * play correct-horse-3\n";

    #[test]
    fn a_stream_has_a_passphrase_for_each_right() {
        let list = AccessList::parse(LIST).unwrap();
        let with = |stream, intent, passphrase| {
            let admission = Admission::With(Passphrase::derive(passphrase).unwrap());
            assert_eq!(list.admit(&Call::new(stream, intent)), admission, "{stream} {intent}");
        };
        with("camera1", Intent::Publish, "correct-horse-1");
        with("camera1", Intent::Play, "correct-horse-2");
        with("studio", Intent::Play, "correct-horse-1");
        with("studio", Intent::Publish, "correct-horse-1");
        for other in ["", "garden", "*"] {
            with(other, Intent::Play, "correct-horse-3");
            let refused = list.admit(&Call::new(other, Intent::Publish));
            assert!(matches!(refused, Admission::Refused(Refusal::NotAllowed(_))), "{refused:?}");
        }
        let without_any = AccessList::parse("camera1 play correct-horse-2").unwrap();
        assert_eq!(without_any.admit(&Call::new("", Intent::Play)), Admission::Refused(Refusal::UnknownStream));
        assert!(!format!("{list:?}").contains("horse"));
    }

    #[test]
    fn a_listener_that_only_receives_admits_nobody_with_the_right_to_receive() {
        let list = AccessList::parse(LIST).unwrap().only(Intent::Publish);
        assert!(matches!(list.admit(&Call::new("camera1", Intent::Publish)), Admission::With(_)));
        let refused = list.admit(&Call::new("camera1", Intent::Play));
        assert!(matches!(refused, Admission::Refused(Refusal::NotAllowed(_))), "{refused:?}");
    }

    #[test]
    fn a_stream_with_a_line_of_its_own_is_not_any_other() {
        let list = AccessList::parse("a play correct-horse-2\n* both correct-horse-3").unwrap();
        let refused = list.admit(&Call::new("a", Intent::Publish));
        assert!(matches!(refused, Admission::Refused(Refusal::NotAllowed(_))), "{refused:?}");
    }

    #[test]
    fn wrong_lines_are_named_and_no_passphrase_is_shown() {
        let long = format!("{} both correct-horse-1", "a".repeat(513));
        for (text, line, words) in [
            ("\n\na", 3, "publish, play or both"),
            ("a correct-horse-1 both", 1, "publish, play or both"),
            ("a both # correct-horse-1", 1, "missing"),
            ("#\na both correct horse", 2, "blanks"),
            ("a both short", 1, "less than 10"),
            (long.as_str(), 1, "512"),
            ("a both correct-horse-1\nb both correct-horse-1\na play correct-horse-2", 3, "line 1 has"),
        ] {
            let error = AccessList::parse(text).unwrap_err();
            let shown = format!("{error}");
            assert!(error.line == line && shown.contains(words), "{text}: {shown}");
            assert!(!format!("{shown} {error:?}").contains("horse"), "{shown}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_list_or_has_a_wrong_line(
            text in proptest::string::string_regex("((a|b|\\*|#| |\t|publish|play|both|correct-horse-\\d|\\PC){0,9}(\r?\n)?){0,6}").unwrap()
        ) {
            match lines(&text) {
                Ok(lines) => {
                    let most = text.lines().filter(|line| !line.trim().is_empty()).count();
                    prop_assert!(lines.len() <= most);
                    prop_assert!(lines.iter().all(|line| line.passphrase.chars().count() >= MIN_PASSPHRASE));
                }
                Err(error) => prop_assert!((1..=text.lines().count()).contains(&error.line), "{error}"),
            }
        }
    }
}
