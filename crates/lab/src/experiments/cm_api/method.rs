//! Ways to send that are compared.

use std::fmt;

/// API of the Congestion Manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Api {
    /// Requests and callbacks on an unconnected socket.
    NoConnect,
    /// Requests and callbacks on a connected socket.
    Alf,
    /// Buffered socket.
    Buffered,
}

/// Location of the Congestion Manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ManagerPlacement {
    InProcess,
    Daemon,
}

/// Way to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendMethod {
    Api(Api, ManagerPlacement),
    Tcp {
        /// Whether each packet is acknowledged at once.
        nodelay: bool,
    },
}

impl SendMethod {
    pub(super) const ALL: [Self; 8] = [
        Self::NODELAY,
        Self::Api(Api::NoConnect, ManagerPlacement::InProcess),
        Self::Api(Api::Alf, ManagerPlacement::InProcess),
        Self::Api(Api::Buffered, ManagerPlacement::InProcess),
        Self::Api(Api::NoConnect, ManagerPlacement::Daemon),
        Self::Api(Api::Alf, ManagerPlacement::Daemon),
        Self::Api(Api::Buffered, ManagerPlacement::Daemon),
        Self::Tcp { nodelay: false },
    ];
    /// Baseline of all comparisons.
    pub(super) const NODELAY: Self = Self::Tcp { nodelay: true };

    /// Returns its index in [`ALL`](Self::ALL).
    pub(super) fn index(self) -> usize {
        Self::ALL.iter().position(|&way| way == self).expect("all are in the list")
    }

    /// Returns the ways through a Congestion Manager at `place`.
    pub(super) fn of(place: ManagerPlacement) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(move |way| matches!(way, Self::Api(_, at) if *at == place))
    }
}

impl fmt::Display for SendMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (api, place) = match self {
            Self::Tcp { nodelay: true } => return f.write_str("TCP/CM nodelay"),
            Self::Tcp { nodelay: false } => return f.write_str("TCP/CM"),
            Self::Api(api, place) => (api, place),
        };
        f.write_str(match api {
            Api::NoConnect => "ALF/noconnect",
            Api::Alf => "ALF",
            Api::Buffered => "buffered",
        })?;
        f.write_str(match place {
            ManagerPlacement::InProcess => "",
            ManagerPlacement::Daemon => ", daemon",
        })
    }
}
