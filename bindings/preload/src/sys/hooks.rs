//! Hooks: functions of the C library's names, which the program calls instead.

mod lifetime;
mod receiving;
mod sending;

use super::{messages, real};

/// Runs when the library is loaded, before the program.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = {
    extern "C" fn at_load() {
        real::find_all();
        messages::note_standard_error();
    }
    at_load
};
