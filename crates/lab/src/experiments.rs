//! List of all experiments. An entry makes one a subcommand, a section of the report, and a row of the list.

mod arrivals;
mod bloat;
mod cm;
pub(crate) mod cm_api;
mod cm_cpu;
mod cm_ensemble;
mod cm_host;
mod cm_layers;
mod cm_loss;
mod cm_programs;
mod cm_sharing;
mod cm_trust;
mod cm_vat;
pub(crate) mod daemon;
mod dbat;
mod dbat_buffering;
mod dbat_latency;
mod dbat_loss;
mod dbat_throughput;
mod encryption;
pub(crate) mod fault;
mod goddard;
mod lai;
mod lai_age;
mod lai_iframes;
mod lai_notify;
mod lai_overhead;
mod ldc;
mod ldc_layers;
mod ldc_playout;
mod ldc_rate;
mod machines;
mod managed;
mod over_tcp;
pub(crate) mod sending;
mod short_beside;
mod short_queues;
mod system_calls;
mod tcp;
mod tcp_cubic;
mod tcp_expired;
mod tcp_formula;
pub(crate) mod tcp_kernel;
mod tcp_sharing;
mod tfrc;
mod tfrc_fair;
mod tfrc_step;
mod tl;
mod tl_datagrams;
mod tl_dependencies;
mod tl_fairness;
mod tl_middleboxes;
mod tl_timelines;

use crate::experiment::Experiment;

/// All experiments, in the order of the report.
pub(crate) const ALL: [Experiment; 39] = [
    lai_overhead::EXPERIMENT,
    lai_notify::EXPERIMENT,
    lai_age::EXPERIMENT,
    lai_iframes::EXPERIMENT,
    cm_loss::EXPERIMENT,
    cm_layers::EXPERIMENT,
    cm_vat::EXPERIMENT,
    cm_trust::EXPERIMENT,
    cm_ensemble::EXPERIMENT,
    cm_sharing::EXPERIMENT,
    cm_host::EXPERIMENT,
    cm_cpu::EXPERIMENT,
    cm_api::EXPERIMENT,
    cm_programs::EXPERIMENT,
    tl_datagrams::EXPERIMENT,
    tl_timelines::EXPERIMENT,
    tl_dependencies::EXPERIMENT,
    tl_fairness::EXPERIMENT,
    tl_middleboxes::EXPERIMENT,
    dbat_buffering::EXPERIMENT,
    dbat_throughput::EXPERIMENT,
    dbat_latency::EXPERIMENT,
    dbat_loss::EXPERIMENT,
    short_queues::EXPERIMENT,
    short_beside::EXPERIMENT,
    tfrc_fair::EXPERIMENT,
    tfrc_step::EXPERIMENT,
    ldc_rate::EXPERIMENT,
    ldc_layers::EXPERIMENT,
    ldc_playout::EXPERIMENT,
    tcp_formula::EXPERIMENT,
    tcp_sharing::EXPERIMENT,
    tcp_cubic::EXPERIMENT,
    tcp_kernel::EXPERIMENT,
    tcp_expired::EXPERIMENT,
    arrivals::EXPERIMENT,
    bloat::EXPERIMENT,
    bloat::narrow::EXPERIMENT,
    encryption::EXPERIMENT,
];

#[cfg(test)]
mod tests {
    use super::ALL;
    use crate::experiment::virtual_experiments;

    #[test]
    fn expected_failures_are_of_experiments_in_virtual_time() {
        for name in virtual_experiments() {
            assert!(ALL.iter().any(|about| about.name == name && about.forms.include(false)), "{name}");
        }
    }

    #[test]
    fn sabotages_have_names_of_their_own_and_claims_that_fall() {
        for about in ALL {
            for (index, sabotage) in about.sabotages.iter().enumerate() {
                let is_again = about.sabotages[..index].iter().any(|other| other.name == sabotage.name);
                assert!(!is_again && !sabotage.falls.is_empty(), "{}: {sabotage:?}", about.name);
            }
        }
    }
}
