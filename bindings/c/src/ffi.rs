//! C functions of `cm.h`, in its order, and of `utl.h`: they check C's arguments and pass them on. The headers document
//! them.

#![allow(unsafe_code, reason = "C's pointers, and names that the linker sees")]
#![allow(
    clippy::missing_safety_doc,
    reason = "what a caller promises is cm(3) and utl(3): pointers are null or what they are said to be"
)]

pub mod acknowledged;
pub mod buffered;
pub mod callbacks;
pub mod datagrams;
pub mod errors;
pub mod feedback;
pub mod macroflows;
pub mod running;
pub mod sending;
pub mod state;

mod entries;

pub use crate::datagrams::counts::UtlCounts;
pub use crate::sys::callback::{CmPath, ErrorFn, ReadyFn, SendFn, UpdateFn};
