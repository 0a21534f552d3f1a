//! Access of callers to a listener, by stream ID.

use std::fmt;

use crate::passphrase::Passphrase;

/// Direction of the data that a caller asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// Send data to the listener.
    Publish,
    /// Receive data from the listener.
    Play,
}

impl Intent {
    pub(crate) fn to_wire(self) -> u8 {
        match self {
            Self::Publish => 0,
            Self::Play => 1,
        }
    }

    pub(crate) fn from_wire(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Publish),
            1 => Some(Self::Play),
            _ => None,
        }
    }
}

impl fmt::Display for Intent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Publish => "send",
            Self::Play => "receive",
        })
    }
}

/// A caller's request, authenticated by the handshake, before its passphrase is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Call<'a> {
    /// The stream that it names; empty if it names none.
    pub stream_id: &'a str,
    /// Direction of the data.
    pub intent: Intent,
}

impl<'a> Call<'a> {
    /// Creates a request, for tests of an [`Access`].
    #[must_use]
    pub fn new(stream_id: &'a str, intent: Intent) -> Self {
        Self { stream_id, intent }
    }
}

/// Reason why a listener refuses a caller, who is told.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// There is no such stream.
    UnknownStream,
    /// Another reason, in words for the caller.
    NotAllowed(String),
}

/// Decision about a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Admitted without a passphrase: its certificate is enough, or anyone may call.
    Open,
    /// Admitted if it proves that it knows this passphrase.
    With(Passphrase),
    /// Refused.
    Refused(Refusal),
}

/// Access check of a listener: asked once a call, on the thread that serves all streams. It has to return at once.
pub trait Access: Send + Sync + fmt::Debug {
    /// Decides about a caller.
    fn admit(&self, call: &Call<'_>) -> Admission;
}

/// One passphrase for all callers, whatever stream they name; `None`: no passphrase is asked for.
#[derive(Clone, Debug, Default)]
pub struct SharedPassphrase(pub Option<Passphrase>);

impl Access for SharedPassphrase {
    fn admit(&self, _: &Call<'_>) -> Admission {
        self.0.clone().map_or(Admission::Open, Admission::With)
    }
}
