//! Runs all fuzz targets with their seeds. Some seeds are inputs for which osdpl once needed too much time or memory.

use fuzz::{TARGETS, measure};

// Keep a single test in this file: tests run in parallel, and `measure` counts the memory of the whole process.
#[test]
fn all_targets_accept_their_seeds() {
    for target in &TARGETS {
        let seeds = (target.seeds)();
        assert!(!seeds.is_empty(), "the target {} must have seeds", target.name);
        // Run a seed without measuring it: the first run also allocates what later runs share, such as the catalogue.
        (target.run)(&seeds[0]);
        let memory: Vec<usize> = seeds.iter().map(|seed| measure(target, seed)).collect();
        let most = memory.iter().max().copied().unwrap_or_default();
        println!("{}: {} seeds, at most {most} bytes of {}", target.name, seeds.len(), target.memory);
    }
}
