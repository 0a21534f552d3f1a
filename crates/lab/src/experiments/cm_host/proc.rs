//! Resource usage of a process, from `/proc`.

use std::fs;

use timeous::core::Duration;

use crate::experiment::LabError;

/// Returns the resident memory of a process in bytes; `pid` is its number or `self`.
pub(super) fn resident(pid: &str) -> Result<u64, LabError> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).map_err(LabError::system("read /proc"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()).and_then(|word| word.parse::<u64>().ok());
    kib.map(|kib| kib << 10).ok_or_else(|| LabError::Machine("/proc does not tell the memory of a process".to_owned()))
}

/// Returns the number of open descriptors of a process.
pub(super) fn descriptors(pid: &str) -> Result<usize, LabError> {
    Ok(fs::read_dir(format!("/proc/{pid}/fd")).map_err(LabError::system("read /proc"))?.count())
}

/// Returns the processor time of all threads of a process.
pub(super) fn cpu(pid: &str) -> Result<Duration, LabError> {
    let failed = || LabError::system("read /proc");
    let mut nanos = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task")).map_err(failed())? {
        let path = thread.map_err(failed())?.path().join("schedstat");
        let text = fs::read_to_string(path).map_err(failed())?;
        nanos += text.split_whitespace().next().and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(Duration::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_memory_descriptors_and_time() {
        assert!(resident("self").unwrap() > 0);
        assert!(descriptors("self").unwrap() > 2);
        cpu("self").unwrap();
        assert!(resident("0").is_err());
    }
}
