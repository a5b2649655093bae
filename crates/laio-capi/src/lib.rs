//! The C API of laio: every function that `include/laio.h` declares, and nothing else.
//!
//! Each function converts its arguments, checks that it may use the context (`thread`), calls the
//! engine, and converts the result (`ret`). `laio.h` and the manual pages describe the functions
//! and their errors; comments here give the reasons only.
//!
//! The functions are `extern "C"` and exported by name. `cargo xtask install` links them into `liblaio.so.0`
//! and `liblaio.a`, with symbol versions and nothing else exported.

mod calls;
mod completion;
mod contexts;
mod look;
mod notify;
mod operations;
mod options;
mod range_results;
mod ranges;
mod report;
mod requests;
mod ret;
mod sized;
mod thread;

pub use calls::{laio_gethandle, laio_poll, laio_syscall};
pub use completion::laio_completion;
pub use contexts::{
    laio_context_current, laio_context_free, laio_context_new, laio_context_use, laio_finish,
    laio_init,
};
pub use look::{
    laio_aio_counts, laio_call_stats, laio_counts, laio_info, laio_pending, laio_report,
    laio_stats, laio_strbackend, laio_version,
};
pub use notify::{laio_fd, laio_flush, laio_set_signal, laio_sigaction, laio_wake};
pub use operations::{
    laio_call, laio_cancel, laio_context_poll, laio_forget, laio_peek, laio_set_ordered,
    laio_set_timeout, laio_set_user, laio_submit, laio_take,
};
pub use options::laio_options;
pub use range_results::{laio_range, laio_range_stats, laio_ranges};
pub use ranges::laio_read_ranges;
pub use thread::laio_context;
