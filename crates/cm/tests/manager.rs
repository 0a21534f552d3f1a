//! What the manager promises to clients, users and schedulers, scripted event by event; and beside a plain model.

mod manager {
    pub(crate) mod clients;
    pub(crate) mod grouping;
    pub(crate) mod memory;
    pub(crate) mod model;
    pub(crate) mod script;
    pub(crate) mod steering;
}
