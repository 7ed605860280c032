//! Limits the evaluation of expressions: its steps, and the bytes of the values that it creates. All evaluations of a
//! resource together share a limit, which also counts the values without expressions that osdpl copies for releases.
//!
//! Additions to the catalogue contain expressions that users write. Without a limit, `l.all(a, l.all(b, l.all(c, …)))`
//! runs for hours, and a chain of `replace` doubles a string until it fills the memory.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::Work;
use super::failure::Failure;

/// Counts the work of all evaluations that share a scope. Also stores the largest number of steps and the largest
/// number of bytes that a single evaluation needed.
#[derive(Debug, Default)]
pub(super) struct Total {
    steps: AtomicUsize,
    bytes: AtomicUsize,
    most_steps: AtomicUsize,
    most_bytes: AtomicUsize,
}

impl Total {
    pub(crate) fn used(&self) -> Work {
        Work { steps: self.steps.load(Ordering::Relaxed), bytes: self.bytes.load(Ordering::Relaxed) }
    }

    /// Sets the counted work back to `used`, an earlier result of [`Total::used`].
    pub(crate) fn reset(&self, used: Work) {
        self.steps.store(used.steps, Ordering::Relaxed);
        self.bytes.store(used.bytes, Ordering::Relaxed);
    }

    /// Returns the largest number of steps and the largest number of bytes that a single evaluation needed. The two
    /// numbers may come from different evaluations.
    pub(crate) fn largest(&self) -> Work {
        Work { steps: self.most_steps.load(Ordering::Relaxed), bytes: self.most_bytes.load(Ordering::Relaxed) }
    }

    /// Counts the bytes of a value of the catalogue that contains no expression. Fails if all evaluations together
    /// exceed [`Work::OF_ALL`]. The evaluation of a template calls this function before it copies the value.
    pub(crate) fn copy(&self, bytes: usize) -> Result<(), Failure> {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if self.used().exceeds(Work::OF_ALL) {
            return Err(Failure::TooMuch { of: "all values and expressions together", limit: Work::OF_ALL });
        }
        Ok(())
    }

    fn add(&self, work: Work) {
        self.steps.fetch_add(work.steps, Ordering::Relaxed);
        self.bytes.fetch_add(work.bytes, Ordering::Relaxed);
        self.most_steps.fetch_max(work.steps, Ordering::Relaxed);
        self.most_bytes.fetch_max(work.bytes, Ordering::Relaxed);
    }
}

/// Counts the work of one evaluation. When the budget is dropped, it adds this work to the [`Total`].
pub(super) struct Budget<'a> {
    used: Work,
    before: Work,
    total: &'a Total,
}

impl<'a> Budget<'a> {
    pub(crate) fn new(total: &'a Total) -> Self {
        Self { used: Work::default(), before: total.used(), total }
    }

    /// Counts `steps` steps. Fails if this evaluation exceeds [`Work::OF_ONE`], or all evaluations together exceed
    /// [`Work::OF_ALL`].
    pub(crate) fn step(&mut self, steps: usize) -> Result<(), Failure> {
        self.used.steps = self.used.steps.saturating_add(steps);
        self.check()
    }

    /// Counts the steps that it takes to read `bytes` bytes.
    pub(crate) fn read(&mut self, bytes: usize) -> Result<(), Failure> {
        self.step(bytes / 32)
    }

    /// Counts the bytes of a value, and the steps that it takes to write them. Fails in the same cases as
    /// [`Budget::step`]. The evaluation calls this function before it creates the value.
    pub(crate) fn create(&mut self, bytes: usize) -> Result<(), Failure> {
        self.used.bytes = self.used.bytes.saturating_add(bytes);
        self.read(bytes)
    }

    fn check(&self) -> Result<(), Failure> {
        if self.used.exceeds(Work::OF_ONE) {
            return Err(Failure::TooMuch { of: "an expression", limit: Work::OF_ONE });
        }
        let steps = self.before.steps.saturating_add(self.used.steps);
        let bytes = self.before.bytes.saturating_add(self.used.bytes);
        if (Work { steps, bytes }).exceeds(Work::OF_ALL) {
            return Err(Failure::TooMuch { of: "all expressions together", limit: Work::OF_ALL });
        }
        Ok(())
    }
}

impl Drop for Budget<'_> {
    fn drop(&mut self) {
        self.total.add(self.used);
    }
}
