//! Fuzz targets for the data that osdpl gets from users and from other programs: specs, catalogue files, expressions,
//! chart archives, release records, Secrets that describe Ceph, and logs.
//!
//! A target is a function that passes an input to the functions that the operator itself calls. A target must not
//! panic, and must not allocate more memory than its limit. `make fuzz` runs each target with libFuzzer, which changes
//! the seeds and keeps inputs that reach new code. `tests/fuzz/tests/seeds.rs` runs only the seeds.

mod catalogue;
mod cel;
mod ceph;
mod charts;
mod logs;
mod records;
mod sections;
mod session;
mod spec;

pub use session::Session;

use peak_alloc::PeakAlloc;

/// The allocator, which measures how much memory a target needs for an input. libFuzzer does not use this allocator, so
/// the measurement does not include libFuzzer's memory.
#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// A function to fuzz.
pub struct Target {
    /// The name of the target.
    pub name: &'static str,
    /// The maximum number of bytes that the target may hold at one time for one input.
    pub memory: usize,
    /// Passes an input to the tested functions.
    pub run: fn(&[u8]),
    /// Returns the inputs with which libFuzzer begins.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All targets, in the order in which `make fuzz` runs them.
pub const TARGETS: [Target; 7] = [
    // osdpl needs only a few MiB to resolve a spec. If a spec violates the schema, the errors need little memory,
    // because they quote no values.
    Target { name: "spec", memory: 32 << 20, run: spec::run, seeds: spec::seeds },
    // All additions may have 4 MiB, including the content of aliases. While osdpl parses a file, and while it merges
    // the values of a release, it holds several copies.
    Target { name: "catalogue", memory: 64 << 20, run: catalogue::run, seeds: catalogue::seeds },
    // One expression may create values of 8 MiB.
    Target { name: "cel", memory: 64 << 20, run: cel::run, seeds: cel::seeds },
    // A chart may unpack to 20 MiB. The chart store keeps the unpacked chart in memory. While the store writes the
    // archive, it also keeps the packed chart in memory.
    Target { name: "charts", memory: 64 << 20, run: charts::run, seeds: charts::seeds },
    // A payload may unpack to at most 16 MiB and 250 000 items. The seeds need 60 MiB. If one of osdpl's limits (of
    // bytes, items or objects) were missing, the seeds would need more than 100 MiB.
    Target { name: "records", memory: 80 << 20, run: records::run, seeds: records::seeds },
    Target { name: "ceph", memory: 4 << 20, run: ceph::run, seeds: ceph::seeds },
    Target { name: "logs", memory: 16 << 20, run: logs::run, seeds: logs::seeds },
];

/// Runs a target with an input, and returns the maximum number of bytes that the target held at one time.
///
/// # Panics
/// If the target panics or exceeds its limit.
pub fn measure(target: &Target, input: &[u8]) -> usize {
    MEMORY.reset_peak_usage();
    let before = MEMORY.current_usage();
    (target.run)(input);
    let grown = MEMORY.peak_usage().saturating_sub(before);
    assert!(grown <= target.memory, "{} allocates {grown} bytes, more than {}", target.name, target.memory);
    grown
}

/// Returns the text of a file of the repository.
fn read(path: &str) -> String {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
    std::fs::read_to_string(format!("{root}{path}")).unwrap_or_else(|error| panic!("{path}: {error}"))
}
