//! Expected failures of experiments on this machine's kernel, where measurements vary: an entry may hold in some runs.

use super::expected_failures::{ExpectedFailure, aim, pass};

const FASTEST: &str = "one packet of UDP that finds the link's queue short sets the bar for all of Timeous. In five seeds 38 and 39 % \
                       on a quiet machine, and 0 % beside builds; why was not examined";
const BANDWIDTH: &str = "1.27 to 1.54 in five seeds, where virtual time has less than 1.33. Both flows have NewReno over one queue; \
                         the cause was not examined";
const CALLS: &str = "a call of the transport at each packet costs more than copying a packet into today's kernel. In one thread \
                     with the transport the ring keeps the bound";

/// All expected failures of the real forms.
pub(crate) const EXPECTED_REAL: &[ExpectedFailure] = &[
    pass("lai-age", "packets of Timeous that beat every packet of UDP, %", "2026-11-28", FASTEST),
    pass("lai-age", "packets that arrive over Timeous for one over TCP", "2026-11-28", BANDWIDTH),
    pass("lai-age", "own choice: packets of Timeous that beat every packet of UDP, %", "2026-11-28", FASTEST),
    pass("lai-age", "own choice: packets that arrive over Timeous for one over TCP", "2026-11-28", BANDWIDTH),
    aim(
        "lai-age",
        "Timeous's 99th percentile over UDP's median",
        "2026-11-28",
        "as in virtual time: the TCP flow beside Timeous fills the link's queue, too",
    ),
    pass(
        "lai-iframes",
        "every 20 ms: packets of Timeous dropped at the link, %",
        "2026-11-28",
        "0.8 to 1.1 %, at the bound: in some runs it holds",
    ),
    pass(
        "lai-overhead",
        "the paper's own case, a call of the transport at each packet: ring over UDP where it is dearest",
        "2026-11-28",
        CALLS,
    ),
    pass("lai-overhead", "the paper's own case: UDP over ring at 1400 bytes", "2026-11-28", CALLS),
];
