//! Default callbacks `cmapp_send`, `cmapp_update` and `cmapp_error`, if the program defines them.
//!
//! They are weak references: null where nobody defines them. Rust has none in its stable language, so the assembler makes
//! three words that the linker (`libcm.a`) or the loader (`libcm.so`) fills in. Any ELF system knows these directives.

use std::arch::global_asm;
use std::ffi::c_int;

use super::callback::CmPath;

#[cfg(target_pointer_width = "64")]
macro_rules! word {
    () => {
        ".quad"
    };
}
#[cfg(target_pointer_width = "32")]
macro_rules! word {
    () => {
        ".long"
    };
}

macro_rules! weak_word {
    ($word:literal, $function:literal) => {
        global_asm!(
            concat!(".weak ", $function),
            concat!(".pushsection .data.rel.", $word, ",\"aw\""),
            ".balign 8",
            concat!(".hidden ", $word),
            concat!(".globl ", $word),
            concat!($word, ":"),
            concat!(word!(), " ", $function),
            ".popsection",
        );
    };
}

weak_word!("timeous_cmapp_send", "cmapp_send");
weak_word!("timeous_cmapp_update", "cmapp_update");
weak_word!("timeous_cmapp_error", "cmapp_error");

unsafe extern "C" {
    static timeous_cmapp_send: Option<unsafe extern "C-unwind" fn(i64)>;
    static timeous_cmapp_update: Option<unsafe extern "C-unwind" fn(i64, *const CmPath)>;
    static timeous_cmapp_error: Option<unsafe extern "C-unwind" fn(i64, c_int)>;
}

/// Calls `cmapp_send`; `false` if there is none.
pub(crate) fn send(flow: i64) -> bool {
    // SAFETY: the word is null or the address of the program's function, whose type the header gives.
    unsafe { timeous_cmapp_send.map(|function| function(flow)).is_some() }
}

/// Calls `cmapp_update`; `false` if there is none.
pub(crate) fn update(flow: i64, path: &CmPath) -> bool {
    // SAFETY: as above.
    unsafe { timeous_cmapp_update.map(|function| function(flow, path)).is_some() }
}

/// Calls `cmapp_error`; `false` if there is none.
pub(crate) fn error(flow: i64, error: c_int) -> bool {
    // SAFETY: as above.
    unsafe { timeous_cmapp_error.map(|function| function(flow, error)).is_some() }
}
