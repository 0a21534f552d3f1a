//! Access of callers by stream ID: a passphrase for sending and one for receiving.

use std::collections::BTreeMap;

use crate::access::{Access, Admission, Call, Intent, Refusal};
use crate::passphrase::Passphrase;

/// Passphrases for sending and receiving, by stream ID, as data: of a file, or of another process.
///
/// ```
/// use timeous_seal::{Access, AccessTable, Admission, Call, Intent, Passphrase};
/// let mut table = AccessTable::default();
/// table.grant("camera1", Intent::Publish, Passphrase::derive("correct horse battery")?);
/// assert!(matches!(table.admit(&Call::new("camera1", Intent::Publish)), Admission::With(_)));
/// assert!(matches!(table.admit(&Call::new("camera1", Intent::Play)), Admission::Refused(_)));
/// # Ok::<(), timeous_seal::CredentialError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct AccessTable {
    streams: BTreeMap<String, Grants>,
    /// The only intent that is admitted, if not all.
    only: Option<Intent>,
}

/// Passphrases for one stream.
#[derive(Clone, Debug, Default)]
struct Grants {
    publish: Option<Passphrase>,
    play: Option<Passphrase>,
}

impl AccessTable {
    /// Stream ID of the grants that hold for all streams without grants of their own.
    pub const ANY: &str = "*";

    /// Admits callers of a stream with this intent, by a passphrase.
    pub fn grant(&mut self, stream_id: &str, intent: Intent, passphrase: Passphrase) {
        let grants = self.streams.entry(stream_id.to_owned()).or_default();
        *match intent {
            Intent::Publish => &mut grants.publish,
            Intent::Play => &mut grants.play,
        } = Some(passphrase);
    }

    /// Admits callers of this intent only, for a listener that only sends or only receives.
    #[must_use]
    pub fn only(mut self, intent: Intent) -> Self {
        self.only = Some(intent);
        self
    }

    /// Returns the only intent that is admitted, if not all.
    #[must_use]
    pub fn admitted(&self) -> Option<Intent> {
        self.only
    }

    /// Returns all grants.
    pub fn grants(&self) -> impl Iterator<Item = (&str, Intent, &Passphrase)> {
        self.streams.iter().flat_map(|(stream_id, Grants { publish, play })| {
            let publish = publish.iter().map(|passphrase| (Intent::Publish, passphrase));
            let play = play.iter().map(|passphrase| (Intent::Play, passphrase));
            publish.chain(play).map(|(intent, passphrase)| (stream_id.as_str(), intent, passphrase))
        })
    }
}

impl Access for AccessTable {
    fn admit(&self, call: &Call<'_>) -> Admission {
        let Some(grants) = self.streams.get(call.stream_id).or_else(|| self.streams.get(Self::ANY)) else {
            return Admission::Refused(Refusal::UnknownStream);
        };
        match self.only {
            Some(Intent::Publish) if call.intent == Intent::Play => return not_allowed("it only receives"),
            Some(Intent::Play) if call.intent == Intent::Publish => return not_allowed("it only sends"),
            _ => {}
        }
        let (granted, refusal) = match call.intent {
            Intent::Publish => (&grants.publish, "the stream may be received, not sent"),
            Intent::Play => (&grants.play, "the stream may be sent, not received"),
        };
        granted.clone().map_or_else(|| not_allowed(refusal), Admission::With)
    }
}

fn not_allowed(words: &str) -> Admission {
    Admission::Refused(Refusal::NotAllowed(words.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_made_of_the_grants_of_another_decides_as_that_one() {
        let mut table = AccessTable::default().only(Intent::Play);
        for (at, (stream_id, intent)) in
            [("a", Intent::Publish), ("a", Intent::Play), ("b", Intent::Play), (AccessTable::ANY, Intent::Publish)]
                .into_iter()
                .enumerate()
        {
            table.grant(stream_id, intent, Passphrase::from_key([at as u8; 32]));
        }
        let mut again = AccessTable::default().only(table.admitted().unwrap());
        for (stream_id, intent, passphrase) in table.grants() {
            again.grant(stream_id, intent, passphrase.clone());
        }
        for stream_id in ["a", "b", "c", ""] {
            for intent in [Intent::Publish, Intent::Play] {
                let call = Call::new(stream_id, intent);
                assert_eq!(table.admit(&call), again.admit(&call), "{call:?}");
            }
        }
        assert_eq!(again.admit(&Call::new("b", Intent::Play)), Admission::With(Passphrase::from_key([2; 32])));
        assert!(!format!("{again:?}").contains("[2"), "keys are not shown");
    }
}
