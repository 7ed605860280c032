//! Measures the memory of an operator's process.

use crate::operator::Operator;

/// The maximum growth of an operator's resident memory during a test, in KiB.
///
/// The data with which a test attacks the operator is at least four times as large as this maximum. Without an attack,
/// the memory of an idle operator varies by 2 MiB, and by 6 MiB during a pass with a helm run.
const ALLOWED: u64 = 32 << 10;

/// The resident memory of an operator before a test attacks it with large objects or expressions.
pub struct Baseline<'a> {
    operator: &'a Operator,
    resident: u64,
}

impl<'a> Baseline<'a> {
    /// Reads the resident memory of the operator, and resets the peak that the kernel records.
    pub fn of(operator: &'a Operator) -> Self {
        // The value 5 resets the recorded peak (`VmHWM`) to the present resident memory; see `proc_pid_clear_refs(5)`.
        std::fs::write(format!("/proc/{}/clear_refs", operator.pid()), "5").unwrap();
        Self { operator, resident: field(operator, "VmRSS") }
    }

    /// Checks that the peak of the operator's memory since the call of [`Self::of`] is less than [`ALLOWED`] above the
    /// baseline, and that the operator is live.
    pub fn check(&self, what: &str) {
        let grown = peak(self.operator).saturating_sub(self.resident);
        println!("{what}: the operator had {} KiB, and needed up to {grown} KiB more", self.resident);
        assert!(
            grown < ALLOWED,
            "{what}: the operator must not need {grown} KiB more than the {} KiB at the start",
            self.resident
        );
        assert!(self.operator.is_live(), "{what}: the liveness probe must succeed");
    }
}

/// Returns the largest resident memory of an operator since its start or its last [`Baseline`], in KiB.
pub fn peak(operator: &Operator) -> u64 {
    field(operator, "VmHWM")
}

/// Returns a field of `/proc/PID/status` in KiB.
fn field(operator: &Operator, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", operator.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_start_matches(':').trim_end_matches("kB").trim().parse().unwrap()
}
