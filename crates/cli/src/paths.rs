//! `timeous paths`: lists or deletes remembered path characteristics.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use timeous::core::Duration;
use timeous_daemon::store::{Store, default_path};
use timeous_daemon::view::Path;
use timeous_daemon::wall::WallTime;
use timeous_ipc::ConnectError;

use crate::daemon_link::DaemonLink;
use crate::failure::Failure;
use crate::figures::{age, micros, ppm, scaled};
use crate::notice::{say, tell};

/// Show or delete remembered path characteristics
///
/// A path's window, round-trip time and rate outlive its flows and the daemon, so that the next flow to the same host
/// starts with them. Asks a running daemon, else reads its file.
#[derive(Args, Debug)]
pub(crate) struct PathsArgs {
    #[command(subcommand)]
    command: Option<PathsCommand>,
    /// Socket of the daemon, if not at the default path
    #[arg(long, value_name = "PATH", global = true)]
    socket: Option<PathBuf>,
    /// File to read if no daemon runs, if not at the default path
    #[arg(long, value_name = "FILE", global = true)]
    store: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum PathsCommand {
    /// List paths (the default)
    List {
        /// Print JSON; names of fields include their units
        #[arg(long)]
        json: bool,
    },
    /// Delete the paths to one address, or all
    Forget {
        /// Address of the paths to delete
        #[arg(required_unless_present = "all")]
        address: Option<IpAddr>,
        /// Delete all paths
        #[arg(long, conflicts_with = "address")]
        all: bool,
    },
}

/// Source of remembered paths: a running daemon, or a file without a daemon.
enum PathsSource {
    Daemon(Box<DaemonLink>),
    File(Store),
}

/// Runs the command.
pub(crate) fn run(args: PathsArgs) -> Result<(), Failure> {
    let mut place = PathsSource::find(args.socket, args.store)?;
    match args.command.unwrap_or(PathsCommand::List { json: false }) {
        PathsCommand::List { json } => {
            let paths = place.paths()?;
            if json {
                let text = serde_json::to_string(&paths).map_err(|error| Failure::Environment(error.to_string()))?;
                say(text);
            } else {
                say(table(&paths).trim_end());
            }
        }
        PathsCommand::Forget { address, .. } => {
            let count = place.forget(address)?;
            say(format_args!("{count} forgotten"));
        }
    }
    Ok(())
}

impl PathsSource {
    fn find(socket: Option<PathBuf>, file: Option<PathBuf>) -> Result<Self, Failure> {
        let why = match DaemonLink::try_connect(socket) {
            Ok(link) => return Ok(Self::Daemon(Box::new(link))),
            Err(error @ ConnectError::NoDaemon { .. }) => error,
            Err(error) => return Err(Failure::Peer(error.to_string())),
        };
        let file = file.or_else(default_path).ok_or_else(|| Failure::Environment(why.to_string()))?;
        if !file.exists() {
            return Err(Failure::Environment(format!("{why}; and nothing is remembered in {}", file.display())));
        }
        let (store, set_aside) =
            Store::open(&file, WallTime::now()).map_err(|error| Failure::Environment(error.to_string()))?;
        if let Some(told) = set_aside {
            tell(told);
        }
        Ok(Self::File(store))
    }

    fn paths(&mut self) -> Result<Vec<Path>, Failure> {
        match self {
            Self::Daemon(link) => link.paths(),
            Self::File(store) => Ok(store.remembered(WallTime::now()).iter().map(Path::from).collect()),
        }
    }

    fn forget(&mut self, address: Option<IpAddr>) -> Result<u64, Failure> {
        match self {
            Self::Daemon(link) => link.forget(address),
            Self::File(store) => {
                let count = store.forget(|path| address.is_none_or(|address| path.addr == address));
                store.flush();
                match store.failures() {
                    0 => Ok(count as u64),
                    _ => Err(Failure::Environment("the path memory could not be written".to_owned())),
                }
            }
        }
    }
}

fn table(paths: &[Path]) -> String {
    let mut text = format!(
        "{:<40} {:>6} {:>7} {:>9} {:>7} {:>7} {:>7} {:>6}\n",
        "PATH", "USER", "WINDOW", "THRESHOLD", "RTT", "RATE", "LOSS", "AGE"
    );
    for path in paths {
        let dscp = if path.dscp == 0 { String::new() } else { format!(" dscp {}", path.dscp) };
        text += &format!(
            "{:<40} {:>6} {:>7} {:>9} {:>7} {:>7} {:>7} {:>6}\n",
            format!("{}{dscp}", path.address),
            path.user.map_or("host".to_owned(), |user| user.to_string()),
            scaled(path.window_bytes),
            path.threshold_bytes.map_or("-".to_owned(), scaled),
            micros(path.srtt_us),
            scaled(path.rate_bps),
            ppm(path.loss_ppm),
            age(Duration::from_secs(path.age_seconds)),
        );
    }
    text
}
