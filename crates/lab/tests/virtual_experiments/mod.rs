//! The experiments in virtual time, for tests that run each of them.

/// Calls a macro with the name of a test and of its experiment, for each experiment.
macro_rules! for_each_virtual_experiment {
    ($tests:ident) => {
        $tests! {
            lai_overhead: "lai-overhead",
            lai_notify: "lai-notify",
            lai_age: "lai-age",
            lai_iframes: "lai-iframes",
            cm_loss: "cm-loss",
            cm_layers: "cm-layers",
            cm_vat: "cm-vat",
            cm_trust: "cm-trust",
            cm_ensemble: "cm-ensemble",
            cm_sharing: "cm-sharing",
            tl_datagrams: "tl-datagrams",
            tl_timelines: "tl-timelines",
            tl_dependencies: "tl-dependencies",
            tl_fairness: "tl-fairness",
            tl_middleboxes: "tl-middleboxes",
            dbat_buffering: "dbat-buffering",
            dbat_throughput: "dbat-throughput",
            dbat_latency: "dbat-latency",
            dbat_loss: "dbat-loss",
            short_queues: "short-queues",
            short_beside: "short-beside",
            tfrc_fair: "tfrc-fair",
            tfrc_step: "tfrc-step",
            ldc_rate: "ldc-rate",
            ldc_layers: "ldc-layers",
            ldc_playout: "ldc-playout",
            tcp_formula: "tcp-formula",
            tcp_sharing: "tcp-sharing",
            tcp_cubic: "tcp-cubic",
            arrivals: "arrivals",
            bloat: "bloat",
            narrow: "narrow",
            encryption: "encryption",
        }
    };
}
pub(crate) use for_each_virtual_experiment;
