//! Builds the tokio runtimes of osdpl's threads.

use tokio::runtime::{Builder, Runtime};

/// Builds a runtime that runs tasks on the thread that calls it, and has one more thread for blocking work, such as
/// reading charts and release records.
///
/// More threads would only take memory, because the operator mostly waits. Host names are resolved on other threads
/// ([`crate::resolve`]), because lookups hang during a DNS outage.
///
/// Only this function calls tokio's builder. With two callers, the compiler would keep the code of tokio's scheduler
/// for several threads in the program.
///
/// # Errors
/// Returns an error if the operating system refuses to create the file descriptors of the runtime.
#[inline(never)]
pub fn runtime() -> std::io::Result<Runtime> {
    Builder::new_current_thread().max_blocking_threads(1).enable_all().build()
}
