//! The tool `timeous`: its path, times as its arguments, and the address that its emulator prints.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use timeous::core::Duration;

use crate::error::DemoError;

/// Time limit for a program to start, or to end after its work.
pub(crate) const SOON: Duration = Duration::from_secs(15);

/// Path of the tool `timeous`, which is built into the same directory.
pub(crate) fn path() -> Result<PathBuf, DemoError> {
    let own = std::env::current_exe().map_err(DemoError::file(Path::new("timeous-demo")))?;
    let tool = own.with_file_name(format!("timeous{}", std::env::consts::EXE_SUFFIX));
    if tool.is_file() { Ok(tool) } else { Err(DemoError::NoTool(tool)) }
}

/// Formats a time for the tools.
pub(crate) fn time(duration: Duration) -> String {
    match duration.as_micros() {
        micros if micros % 1_000_000 == 0 => format!("{}s", micros / 1_000_000),
        micros if micros % 1_000 == 0 => format!("{}ms", micros / 1_000),
        micros => format!("{micros}us"),
    }
}

/// Listening address that the emulator prints.
pub(crate) fn listening_at(output_so_far: &str) -> Option<SocketAddr> {
    output_so_far.lines().find_map(|line| line.split_once(" -> ")?.0.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use timeous::core::units::parse_duration;

    use super::*;

    #[test]
    fn times_are_read_back_as_they_were() {
        for micros in [0, 1, 500, 1_000, 40_000, 999_999, 1_000_000, 90_000_000] {
            let duration = Duration::from_micros(micros);
            assert_eq!(parse_duration(&time(duration)), Ok(duration));
        }
        assert_eq!(time(Duration::from_secs(1)), "1s");
    }

    #[test]
    fn the_emulator_says_where_it_listens() {
        let output_so_far = "warning: a -> b\n127.0.0.1:40123 -> 127.0.0.1:9\n";
        assert_eq!(listening_at(output_so_far), Some(([127, 0, 0, 1], 40_123).into()));
        assert_eq!(listening_at("127.0.0.1:401"), None, "half a line is none");
    }
}
