//! `timeous reference`: URI keys, policies, controllers, statistics and exit codes, from the tables that the parsers use.

use std::collections::BTreeMap;
use std::io::Write;

use schemars::{JsonSchema, SchemaGenerator};
use timeous::uri::{KEYS, Topic};
use timeous::{PolicyName, Stats, cm::Kind};

use crate::failure::{EXIT_CODES, Failure};
use crate::journal::{FRAMES, JOURNAL};
use crate::meter::ADDED;
use crate::output::SinkStats;
use crate::recv::{FrameCounts, ReceivedTrack};
use crate::send::{SenderCounts, SentTrack};

/// Sections of the statistics with their names, in the order of the page.
const STATISTICS: [(&str, &[&str]); 6] = [
    ("Stream", &["msTimeStamp", "unixMs", "peer", "transport", "repair", "delivery", "lateChoice", "peerStalled"]),
    (
        "Sent",
        &[
            "pktSentTotal",
            "byteSentTotal",
            "mbpsSendRate",
            "pktAckedTotal",
            "pktSndLossTotal",
            "pktRetransTotal",
            "pktSndFilterExtraTotal",
            "pktSndDropTotal",
            "pktSndExpiredTotal",
            "pktSndTooLateTotal",
            "pktSndReferenceLostTotal",
            "pktSndPolicyTotal",
            "pktSndOtherTotal",
            "pktSndReplacedTotal",
            "pktSndPaddedTotal",
            "pktSndUnchangedTotal",
        ],
    ),
    (
        "Received",
        &[
            "pktRecvTotal",
            "byteRecvTotal",
            "mbpsRecvRate",
            "pktRecvEarlyTotal",
            "pktRcvDropTotal",
            "pktRcvDuplicateTotal",
            "pktRcvFilterExtraTotal",
            "pktRcvFilterSupplyTotal",
        ],
    ),
    (
        "Path and send queue",
        &[
            "msRTT",
            "msRTTMin",
            "mbpsBandwidth",
            "byteMSS",
            "pathBlackHolesTotal",
            "byteFlightSize",
            "byteCongestionWindow",
            "pktSndBuf",
            "byteSndBuf",
            "msSndBuf",
            "byteSndBufAverage",
            "byteSndBufMinTh",
            "byteSndBufMaxTh",
            "mbpsSourceRate",
            "mbpsAdvisedRate",
        ],
    ),
    (
        "Frames, at the sender (`timeous send`)",
        &["framesSent", "iFramesSent", "framesNotSent", "receivers", "reconnections"],
    ),
    (
        "Frames, at the receiver (`timeous recv`)",
        &[
            "framesDecodable",
            "iFramesDecodable",
            "framesIncomplete",
            "framesLate",
            "framesReferenceMissing",
            "framesUnreadable",
            "framesMissing",
            "framesWritten",
            "byteWritten",
            "framesNotWritten",
            "pktRcvLossTotal",
            "pktRcvBelated",
            "pktRcvDuplicate",
            "pktRcvRefused",
            "streams",
            "msLatency",
        ],
    ),
];

/// Prints the reference.
pub(crate) fn run() -> Result<(), Failure> {
    let written = std::io::stdout().write_all(reference().as_bytes());
    written.map_err(|error| Failure::file("standard output", &error))
}

fn reference() -> String {
    let statistics = STATISTICS.map(|(section, names)| {
        let meanings = meanings();
        let rows = names.iter().map(|name| [code(name), meanings.get(*name).cloned().unwrap_or_default()]);
        format!("### {section}\n{}", table(["Name", "Meaning"], rows))
    });
    format!(
        "\
# Reference

`timeous reference` prints this page. What Timeous cannot do is on the page of [limits](limits.md).

- [URIs](#uris)
- [Policies](#policies)
- [Controllers](#controllers)
- [Statistics](#statistics)
- [Exit codes](#exit-codes)

## URIs
`timeous://host:port?key=value&…`; port {port} unless given. With a host it calls, without one it listens. Times and sizes
have units: `300ms`, `1.5s`, `64k`; a time without a unit is in milliseconds, as with SRT.

### Time
{}
### What is dropped
{}
### Security
{}
Any credential (`passphrase`, `cert`, `ca`, `fingerprint`, `access`) encrypts the stream, and the other end needs one, too: nothing is
negotiated. Without one a caller fails for any host but its own, unless the URI says `encryption=off`:
[security](guide/security.md).

### Transport
{}
## Policies
All but `fifo` send nothing after its deadline, and drop what refers to a frame that was lost or dropped
(`plan` may send some of that where the link would be idle otherwise, to keep its share beside other flows).

{}
`transport=auto` uses `plan` over both transports.

## Controllers
With `ccid=2`, and over TCP beside the kernel's own. All streams of a process (or of the daemon) to one host have
the same controller: the stream opened last sets it.

{}
Marks (ECN) are answered as classic ones: no L4S.

## Statistics
`--stats FILE` of `send` and `recv` (`-`: standard error) writes a record each `--stats-interval` (1 s) and one at the end,
as JSON (one object per line) or CSV. Names are SRT's where it has one. Totals count from the beginning of the stream; a
reconnection begins another stream. The library has the names of streams in `Stats` (`pktSentTotal` is `pkt_sent_total`).

{}
### Streams of the source, at the sender
`tracks` of a record is a list with an object for each video, audio and other stream of the source, in JSON only. At the end both programs
print a line for each, if there are several.

{}
### Streams of the source, at the receiver
{}
At the receiver each frame of which a packet came has exactly one of five fates: decodable, incomplete, late, reference
missing, unreadable.

With `udp://` there are only `pktSentTotal`, `byteSentTotal`, `pktRecvTotal`, `byteRecvTotal` and the counts of frames and RTP
packets.

`recv --frames FILE` writes a row for each frame: `{FRAMES}`. `send --journal FILE` writes a row for each packet:
`{JOURNAL}`. Times are nanoseconds since 1970. `predicted` and `arrived` are the arrival that was
predicted when the packet left, and its arrival, where an acknowledgement tells it: over DCCP each tells that of one packet, over TCP only one that the receiver has not delayed.

`send --qlog FILE` writes what congestion control does as [qlog](https://datatracker.ietf.org/doc/draft-ietf-quic-qlog-main-schema/): windows, RTTs, losses, and as
`timeous:packet_arrived` the predicted and the actual arrival of each packet of which the receiver told the time, in milliseconds since the log began. Of streams
with `daemon=` the daemon writes it (`timeous daemon --qlog`).

`--stats`, `--frames` and `--journal` overwrite an existing file; that of `--qlog` is renamed first, so that it takes no pipe and no device. It is an error (exit code 2) if that is the command's SOURCE or SINK, or the file of another option.
A pipe (FIFO) needs a reader within a second. That holds for `emulate --capture` and `--stats`, too, and for `recv --sdp`, without which the stream goes on. SINK may be a
pipe whose reader comes later.

## Exit codes
{}
`timeous run` ends with the status of its program, as that has taken its place.
`timeous-lab`, `timeous-demo`, `timeous-peer-trials`, `timeous-soak`: 0 all bounds hold, 1 a bound does not hold, 2 the command line is wrong, 3 the clip of the demo is no video, 4 the machine lacks something.
",
        keys(Topic::Time),
        keys(Topic::Choice),
        keys(Topic::Security),
        keys(Topic::Transport),
        table(
            ["Policy", "Drops", "Use it for"],
            PolicyName::ALL.map(|policy| [code(policy.as_str()), policy.drops().to_owned(), policy.suits().to_owned()]),
        ),
        table(
            ["Controller", "Is", "Beside other flows"],
            Kind::ALL.map(|kind| {
                let [is, beside] = kind.description();
                [code(kind.name()), is.to_owned(), beside.to_owned()]
            }),
        ),
        statistics.join("\n"),
        fields::<SentTrack>(),
        fields::<ReceivedTrack>(),
        table(["Code", "Meaning"], EXIT_CODES.map(|(code, meaning)| [code.to_string(), meaning.to_owned()])),
        port = timeous::uri::DEFAULT_PORT,
    )
}

fn keys(topic: Topic) -> String {
    let keys = KEYS.iter().filter(|key| key.topic == topic);
    table(
        ["Key", "Meaning", "Default"],
        keys.map(|key| [code(key.name), key.meaning.to_owned(), key.default.to_owned()]),
    )
}

/// Table of a structure's fields.
fn fields<T: JsonSchema>() -> String {
    table(["Name", "Meaning"], descriptions::<T>().into_iter().map(|(name, meaning)| [code(&name), meaning]))
}

/// Meanings of all statistics, by name.
fn meanings() -> BTreeMap<String, String> {
    let mut meanings: BTreeMap<_, _> =
        ADDED.into_iter().map(|(name, meaning)| (name.to_owned(), meaning.to_owned())).collect();
    meanings.extend(descriptions::<Stats>());
    meanings.extend(descriptions::<SenderCounts>());
    meanings.extend(descriptions::<FrameCounts>());
    meanings.extend(descriptions::<SinkStats>());
    meanings
}

/// Documentation of a structure's fields, by their names in JSON.
fn descriptions<T: JsonSchema>() -> Vec<(String, String)> {
    let schema = SchemaGenerator::default().into_root_schema_for::<T>();
    let fields = schema.get("properties").and_then(|fields| fields.as_object()).into_iter().flatten();
    let described = fields.map(|(name, field)| {
        let description = field.get("description").and_then(|text| text.as_str()).unwrap_or_default();
        (name.clone(), description.replace('\n', " ").trim_end_matches('.').to_owned())
    });
    described.collect()
}

fn code(name: &str) -> String {
    format!("`{name}`")
}

/// Formats a Markdown table.
fn table<const N: usize>(head: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let head = format!("| {} |\n|{}\n", head.join(" | "), "---|".repeat(N));
    rows.into_iter().fold(head, |text, row| text + &format!("| {} |\n", row.join(" | ")).replace("|  |", "| |"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_statistic_is_explained_once() {
        let named: Vec<_> =
            STATISTICS.iter().flat_map(|(_, names)| names.iter().map(|name| (*name).to_owned())).collect();
        let meanings = meanings();
        assert!(meanings.values().all(|meaning| !meaning.is_empty()), "{meanings:?}");
        let mut sorted = named.clone();
        sorted.sort();
        assert_eq!(sorted, meanings.into_keys().collect::<Vec<_>>());
    }
}
