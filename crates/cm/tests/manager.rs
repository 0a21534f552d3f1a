//! Tests of the manager's guarantees to clients, users and schedulers: scripted event by event, and against a simple model.

mod manager {
    pub(crate) mod arrivals;
    pub(crate) mod clients;
    pub(crate) mod grouping;
    pub(crate) mod memory;
    pub(crate) mod model;
    pub(crate) mod script;
    pub(crate) mod silence;
    pub(crate) mod steering;
}
