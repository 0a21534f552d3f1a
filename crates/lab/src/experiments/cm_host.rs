//! cm-host: the daemon with many clients, with clients that are killed, and with clients that send
//! false feedback.

mod judge;
mod killed_clients;
mod scale;
mod users;

use super::daemon::host::DaemonHost;
use crate::experiment::{Experiment, Findings, Forms, Run, RunError, sabotages};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "cm-host",
    title: "One Congestion Manager for the processes of a host: many, dying, lying",
    source: "Andersen et al. §5, \"Trust issues\"",
    paper: "whether and how to share between users who do not trust each other is left open",
    forms: Forms::Real,
    seeds: 1,
    takes: "real 2 min, as root",
    sabotages: &[ALIVE],
    run,
};

sabotages! {
    ALIVE = "alive", "thirty of the clients that are to die live on"
        => ["flows left", "clients left", "descriptors left", "until the last was forgotten", "rate of the others"];
}

fn run(run: &Run<'_>) -> Result<Findings, RunError> {
    if !rustix::process::geteuid().is_root() {
        return Err(RunError::Machine("cm-host needs root, to be several users".to_owned()));
    }
    let task = run.progress.task("cm-host", 3);
    let scale = scale::measure(&DaemonHost::start()?)?;
    task.step();
    let deaths = killed_clients::measure(&DaemonHost::start()?, run, run.breaks(ALIVE))?;
    task.step();
    let users = users::measure(&DaemonHost::start()?, run)?;
    task.step();
    Ok(judge::findings(&scale, &deaths, &users))
}
