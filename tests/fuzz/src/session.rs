//! Controls one run of libFuzzer: writes the seeds, measures how much memory the target allocates for each input, and
//! ends the run when its processor time is used up.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::process::{Signal, getpid, kill_process};
use rustix::time::{ClockId, clock_gettime};

use crate::{TARGETS, Target, measure};

/// The maximum length of a word in libFuzzer's dictionary.
const WORD: usize = 32;
/// The maximum number of words in libFuzzer's dictionary.
const WORDS: usize = 4096;

/// A run of one target.
pub struct Session {
    target: &'static Target,
    /// The folder of the seeds. The dictionary is a file beside this folder, with the same name and the extension
    /// `dict`.
    seeds: PathBuf,
    /// The processor time after which the run ends, in seconds.
    seconds: i64,
    most_memory: AtomicUsize,
    ended: AtomicBool,
}

impl Session {
    /// Reads the settings of the run: `FUZZ_TARGET`, `FUZZ_SEEDS` and `FUZZ_SECONDS`.
    ///
    /// # Panics
    /// If a variable is missing or wrong.
    pub fn from_environment() -> Self {
        let variable =
            |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set; run `make fuzz`"));
        let name = variable("FUZZ_TARGET");
        let known = || TARGETS.iter().map(|target| target.name).collect::<Vec<_>>().join(", ");
        let target = TARGETS.iter().find(|target| target.name == name);
        Self {
            target: target.unwrap_or_else(|| panic!("there is no target {name:?}, only {}", known())),
            seeds: variable("FUZZ_SEEDS").into(),
            seconds: variable("FUZZ_SECONDS").parse().expect("FUZZ_SECONDS is a number"),
            most_memory: AtomicUsize::new(0),
            ended: AtomicBool::new(false),
        }
    }

    /// Writes the seeds of the target, and a dictionary of their words, for libFuzzer.
    ///
    /// # Panics
    /// If the files can't be written.
    pub fn write_seeds(&self) {
        std::fs::create_dir_all(&self.seeds).expect("the folder of the seeds can be created");
        let seeds = (self.target.seeds)();
        for (number, seed) in seeds.iter().enumerate() {
            std::fs::write(self.seeds.join(format!("{number:04}")), seed).expect("a seed can be written");
        }
        std::fs::write(self.seeds.with_extension("dict"), dictionary(&seeds)).expect("the dictionary can be written");
        // Run one input first: it allocates what all inputs share, such as the catalogue. This memory must not count
        // for later inputs.
        (self.target.run)(&seeds[0]);
    }

    /// Runs the target with an input. Ends the program if its processor time is used up.
    ///
    /// # Panics
    /// If the target panics or exceeds its limit of memory. libFuzzer then stores the input.
    pub fn run(&self, input: &[u8]) {
        let memory = measure(self.target, input);
        self.most_memory.fetch_max(memory, Ordering::Relaxed);
        if clock_gettime(ClockId::ProcessCPUTime).tv_sec >= self.seconds && !self.ended.swap(true, Ordering::Relaxed) {
            println!("stat::most_allocated_kb: {}", self.most_memory.load(Ordering::Relaxed) >> 10);
            // At this signal, libFuzzer prints its statistics and exits with success.
            kill_process(getpid(), Signal::USR1).expect("a process may send itself a signal");
        }
    }
}

/// Returns a dictionary of the seeds' words, in libFuzzer's format.
fn dictionary(seeds: &[Vec<u8>]) -> String {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let words: BTreeSet<&[u8]> = seeds.iter().flat_map(|seed| seed.split(|byte| !is_part(*byte))).collect();
    let words = words.into_iter().filter(|word| (2..=WORD).contains(&word.len())).take(WORDS);
    words.fold(String::new(), |mut text, word| {
        let _ = writeln!(text, "\"{}\"", String::from_utf8_lossy(word));
        text
    })
}
