//! The daemon and its clients in processes of their own: good ones, dead ones, lying ones and hostile ones.

mod deaths;
mod flows;
mod hostile;
mod limits;
mod restart;
mod roles;
mod sender;
mod streams;
mod support;
mod users;
