//! List of all experiments. An entry makes one a subcommand, a section of the report, and a row of the list.

mod bloat;
mod cm;
pub(crate) mod cm_api;
mod cm_cpu;
mod cm_ensemble;
pub(crate) mod cm_host;
mod cm_layers;
mod cm_loss;
mod cm_sharing;
mod cm_trust;
mod cm_vat;
mod dbat;
mod dbat_buffering;
mod dbat_latency;
mod dbat_loss;
mod dbat_throughput;
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
mod managed;
mod over_tcp;
pub(crate) mod sending;
mod short_beside;
mod short_queues;
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
pub(crate) fn all() -> Vec<&'static dyn Experiment> {
    vec![
        &lai_overhead::LaiOverhead,
        &lai_notify::LaiNotify,
        &lai_age::LaiAge,
        &lai_iframes::LaiIframes,
        &cm_loss::CmLoss,
        &cm_layers::CmLayers,
        &cm_vat::CmVat,
        &cm_trust::CmTrust,
        &cm_ensemble::CmEnsemble,
        &cm_sharing::CmSharing,
        &cm_host::CmHost,
        &cm_cpu::CmCpu,
        &cm_api::CmApi,
        &tl_datagrams::TlDatagrams,
        &tl_timelines::TlTimelines,
        &tl_dependencies::TlDependencies,
        &tl_fairness::TlFairness,
        &tl_middleboxes::TlMiddleboxes,
        &dbat_buffering::DbatBuffering,
        &dbat_throughput::DbatThroughput,
        &dbat_latency::DbatLatency,
        &dbat_loss::DbatLoss,
        &short_queues::ShortQueues,
        &short_beside::ShortBeside,
        &tfrc_fair::TfrcFair,
        &tfrc_step::TfrcStep,
        &ldc_rate::LdcRate,
        &ldc_layers::LdcLayers,
        &ldc_playout::LdcPlayout,
        &tcp_formula::TcpFormula,
        &tcp_sharing::TcpSharing,
        &tcp_cubic::TcpCubic,
        &tcp_kernel::TcpKernel,
        &tcp_expired::TcpExpired,
        &bloat::Bloat,
    ]
}
