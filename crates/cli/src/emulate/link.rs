//! Command line options of an emulated link, for each direction.

use std::path::PathBuf;

use timeous::core::units::{parse_bytes, parse_duration, parse_rate, parse_share};
use timeous_core::{Duration, Rate};
use timeous_net::LinkConfig;
use timeous_net::link::trace::TraceError;
use timeous_net::link::{Capacity, Jitter, Limit, Loss, QueueKind, RateTrace, Reorder};

/// Parses a rate at which packets pass.
fn rate(text: &str) -> Result<Rate, String> {
    match parse_rate(text) {
        Ok(Rate::ZERO) => Err(
            "nothing would pass: leave it out for a path without a limit, or use --loss 100% for one that is broken"
                .to_owned(),
        ),
        rate => rate.map_err(|error| error.to_string()),
    }
}

#[derive(Clone, Debug, clap::Args)]
pub(super) struct ForwardArgs {
    /// Rate in bits per second, such as 400k or 1.5M
    #[arg(long, value_name = "RATE", value_parser = rate)]
    rate: Option<Rate>,
    /// Variable rate: a file of "seconds kbps" lines, or a mahimahi trace
    #[arg(long, value_name = "FILE", conflicts_with = "rate")]
    trace: Option<PathBuf>,
    /// Bytes that may leave at once after idleness: the depth of a token bucket, such as 15k
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, default_value = "0")]
    burst: u64,
    /// Propagation delay
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "0")]
    delay: Duration,
    /// Variation of the delay: 5ms either way, or with a distribution (uniform, normal, heavy); packets keep their
    /// order unless "reorder" is given
    #[arg(long, value_name = "TIME[,DISTRIBUTION][,reorder]", default_value = "0")]
    jitter: Jitter,
    /// Queue limit: a time (100ms, at the link's rate), packets (30p) or bytes (64k)
    #[arg(long, value_name = "LIMIT", default_value = "1000p")]
    queue: Limit,
    /// Queue discipline: drop-tail, or red or codel, which mark ECN-capable packets and drop others
    ///
    /// red,10%,50%,5% starts marking at a mean queue of 10 % of its limit, marks 5 % at 50 %, and drops above.
    /// codel,5ms,100ms marks when packets have waited more than 5 ms for 100 ms. With ",noecn" at the end they only
    /// drop.
    #[arg(long, value_name = "KIND[,PARAMETERS]", default_value = "drop-tail")]
    queue_kind: QueueKind,
    /// Share of packets lost, independently of each other, such as 1%
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    loss: Option<f64>,
    /// Burst loss (Gilbert-Elliott): probabilities to enter the bad state, to leave it, of loss in it, of loss outside
    #[arg(long, value_name = "P[,R[,1-H[,1-K]]]", value_parser = Loss::parse_burst, conflicts_with = "loss")]
    loss_burst: Option<Loss>,
    /// Share of packets that skip the delay and overtake others or, with a time, are held back for it
    #[arg(long, value_name = "SHARE[,TIME]", default_value = "0%")]
    reorder: Reorder,
    /// Share of packets that are duplicated
    #[arg(long, value_name = "SHARE", value_parser = parse_share, default_value = "0%")]
    duplicate: f64,
}

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "The way back")]
pub(super) struct BackArgs {
    /// As --rate
    #[arg(long, value_name = "RATE", value_parser = rate)]
    back_rate: Option<Rate>,
    /// As --trace
    #[arg(long, value_name = "FILE", conflicts_with = "back_rate")]
    back_trace: Option<PathBuf>,
    /// As --burst
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, default_value = "0")]
    back_burst: u64,
    /// As --delay
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "0")]
    back_delay: Duration,
    /// As --jitter
    #[arg(long, value_name = "TIME[,DISTRIBUTION][,reorder]", default_value = "0")]
    back_jitter: Jitter,
    /// As --queue
    #[arg(long, value_name = "LIMIT", default_value = "1000p")]
    back_queue: Limit,
    /// As --queue-kind
    #[arg(long, value_name = "KIND[,PARAMETERS]", default_value = "drop-tail")]
    back_queue_kind: QueueKind,
    /// As --loss
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    back_loss: Option<f64>,
    /// As --loss-burst
    #[arg(long, value_name = "P[,R[,1-H[,1-K]]]", value_parser = Loss::parse_burst, conflicts_with = "back_loss")]
    back_loss_burst: Option<Loss>,
    /// As --reorder
    #[arg(long, value_name = "SHARE[,TIME]", default_value = "0%")]
    back_reorder: Reorder,
    /// As --duplicate
    #[arg(long, value_name = "SHARE", value_parser = parse_share, default_value = "0%")]
    back_duplicate: f64,
}

impl From<BackArgs> for ForwardArgs {
    fn from(back: BackArgs) -> Self {
        Self {
            rate: back.back_rate,
            trace: back.back_trace,
            burst: back.back_burst,
            delay: back.back_delay,
            jitter: back.back_jitter,
            queue: back.back_queue,
            queue_kind: back.back_queue_kind,
            loss: back.back_loss,
            loss_burst: back.back_loss_burst,
            reorder: back.back_reorder,
            duplicate: back.back_duplicate,
        }
    }
}

impl TryFrom<ForwardArgs> for LinkConfig {
    type Error = LinkArgsError;

    fn try_from(args: ForwardArgs) -> Result<Self, LinkArgsError> {
        let capacity = match (&args.trace, args.rate) {
            (Some(path), _) => Capacity::Trace(RateTrace::load(path)?),
            (None, Some(rate)) => Capacity::Fixed(rate),
            (None, None) => Capacity::Unlimited,
        };
        let loss = match (args.loss_burst, args.loss) {
            (Some(burst), _) => burst,
            (None, Some(p)) => Loss::Bernoulli { p },
            (None, None) => Loss::None,
        };
        let ForwardArgs { burst, delay, jitter, queue, queue_kind: kind, reorder, duplicate, .. } = args;
        if reorder.share > 0.0 && reorder.by.is_none() && delay.is_zero() {
            return Err(LinkArgsError::NothingToSkip { share: reorder.share });
        }
        if burst > 0 && capacity == Capacity::Unlimited {
            return Err(LinkArgsError::BurstWithoutRate);
        }
        Ok(Self { capacity, burst, delay, jitter, queue, kind, loss, reorder, duplicate, ..Self::default() })
    }
}

/// Invalid combination of link options.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkArgsError {
    /// The rate trace is invalid.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// Reordering needs a delay, in which packets can be overtaken.
    #[error(
        "nothing can be overtaken without a delay: give --delay, or say how long packets are held back (--reorder {}%,5ms)",
        share * 100.0
    )]
    NothingToSkip {
        /// Share of packets to reorder.
        share: f64,
    },
    /// A token bucket needs a rate that fills it.
    #[error("a burst is what a rate has saved up: give --rate or --trace with --burst")]
    BurstWithoutRate,
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use timeous_net::link::{CodelConfig, Distribution, RedConfig};

    use super::*;

    #[derive(Debug, Parser)]
    struct Tool {
        #[command(flatten)]
        forward: ForwardArgs,
        #[command(flatten)]
        back: BackArgs,
    }

    fn parse(line: &str) -> Result<[LinkConfig; 2], String> {
        let words = ["emulate"].into_iter().chain(line.split_whitespace());
        let tool = Tool::try_parse_from(words).map_err(|error| error.to_string())?;
        let back = ForwardArgs::from(tool.back);
        let link = |args: ForwardArgs| LinkConfig::try_from(args).map_err(|error| error.to_string());
        Ok([link(tool.forward)?, link(back)?])
    }

    #[test]
    fn what_is_not_said_changes_nothing() {
        assert_eq!(parse(""), Ok([LinkConfig::default(), LinkConfig::default()]));
    }

    #[test]
    fn each_way_has_its_own_queue_bucket_and_variation() {
        let [forward, back] = parse(
            "--rate 1M --burst 15k --delay 40ms --jitter 5ms,normal --queue-kind red,10%,50%,5% --reorder 1% \
             --duplicate 0.5% --back-rate 1M --back-burst 3k --back-jitter 1ms,heavy,reorder --back-queue-kind codel \
             --back-reorder 2%,10ms --back-duplicate 1%",
        )
        .unwrap();
        let red = RedConfig { min: 0.1, max: 0.5, max_p: 0.05, ..RedConfig::default() };
        let spread = Duration::from_millis(5);
        let expected = LinkConfig {
            capacity: Capacity::Fixed(Rate::from_kbps(1_000)),
            burst: 15_000,
            delay: Duration::from_millis(40),
            jitter: Jitter { spread, distribution: Distribution::Normal, reorders: false },
            kind: QueueKind::Red(red),
            reorder: Reorder { share: 0.01, by: None },
            duplicate: 0.005,
            ..LinkConfig::default()
        };
        assert_eq!(forward, expected);
        let spread = Duration::from_millis(1);
        let expected = LinkConfig {
            capacity: Capacity::Fixed(Rate::from_kbps(1_000)),
            burst: 3_000,
            jitter: Jitter { spread, distribution: Distribution::Heavy, reorders: true },
            kind: QueueKind::Codel(CodelConfig::default()),
            reorder: Reorder { share: 0.02, by: Some(Duration::from_millis(10)) },
            duplicate: 0.01,
            ..LinkConfig::default()
        };
        assert_eq!(back, expected);
    }

    #[test]
    fn what_is_wrong_is_said_with_an_example() {
        let cases = [
            ("--burst much", "64k"),
            ("--queue-kind fifo", "codel,5ms,100ms"),
            ("--queue-kind red,50%,10%", "red,10%,50%,5%"),
            ("--jitter 5", "120ms"),
            ("--jitter 5ms,bell", "5ms,normal,reorder"),
            ("--reorder 1", "1% or 0.01"),
            ("--reorder 1%,x", "120ms"),
            ("--duplicate 200%", "1% or 0.01"),
            ("--reorder 5%", "--reorder 5%,5ms"),
            ("--burst 15k", "--rate"),
            ("--back-reorder 5%", "--delay"),
        ];
        for (line, expected) in cases {
            let error = parse(line).expect_err(line);
            assert!(error.contains(expected), "{line}: {error}");
        }
    }
}
