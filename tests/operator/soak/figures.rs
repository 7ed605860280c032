//! Samples the memory, open files and threads of the operator, and prints them as a table.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

/// The time between two samples.
const PERIOD: Duration = Duration::from_secs(10);

/// The maximum change of the mean memory between the first and the last quarter of the samples, in percent.
const MEMORY_TOLERANCE: f64 = 5.0;

/// The maximum change of the mean number of open files between the first and the last quarter of the samples. It is not
/// 0, because connections to the API server come and go.
const FILE_TOLERANCE: f64 = 2.0;

/// The kernel's figures about the operator's process at one time. Memory is in KiB.
#[derive(Clone, Copy, Default)]
struct Sample {
    seconds: f64,
    resident: f64,
    anonymous: f64,
    files: f64,
    threads: f64,
}

/// A figure of the table: its name, the function that reads its value from a sample, and its maximum change, if it has
/// one. The boolean says whether the maximum change is in percent.
type Figure = (&'static str, fn(&Sample) -> f64, Option<(f64, bool)>);

static FIGURES: [Figure; 4] = [
    ("resident memory (KiB)", |sample| sample.resident, Some((MEMORY_TOLERANCE, true))),
    ("anonymous memory (KiB)", |sample| sample.anonymous, Some((MEMORY_TOLERANCE, true))),
    ("open files", |sample| sample.files, Some((FILE_TOLERANCE, false))),
    ("threads", |sample| sample.threads, None),
];

/// Samples a process until this value is dropped. Then prints the table, even if the test has failed.
pub struct Figures {
    samples: Arc<Mutex<Vec<Sample>>>,
    task: JoinHandle<()>,
}

impl Figures {
    /// Starts to sample the process with this ID.
    pub fn of(pid: i32) -> Self {
        let samples = Arc::<Mutex<Vec<Sample>>>::default();
        let (shared, began) = (Arc::clone(&samples), Instant::now());
        let task = tokio::spawn(async move {
            let mut ticks = tokio::time::interval(PERIOD);
            loop {
                ticks.tick().await;
                let Some(sample) = sample(pid) else { return };
                shared.lock().unwrap().push(Sample { seconds: began.elapsed().as_secs_f64(), ..sample });
            }
        });
        Self { samples, task }
    }

    /// Checks that the mean memory and the mean number of open files have not changed by more than their tolerances
    /// between the first and the last quarter of the samples.
    pub fn check_flat(&self) {
        let samples = self.samples.lock().unwrap().clone();
        let grown: Vec<_> = FIGURES.iter().filter(|figure| !is_flat(figure, &samples)).map(|(name, ..)| name).collect();
        assert!(grown.is_empty(), "these figures of the operator must be flat: {grown:?}\n{}", table(&samples));
    }
}

impl Drop for Figures {
    fn drop(&mut self) {
        self.task.abort();
        if let Ok(samples) = self.samples.lock() {
            println!("{}", table(&samples));
        }
    }
}

/// Samples a process once. Returns `None` if the process has ended.
fn sample(pid: i32) -> Option<Sample> {
    let folder = PathBuf::from(format!("/proc/{pid}"));
    let status = std::fs::read_to_string(folder.join("status")).ok()?;
    let field = |name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name))?;
        value.trim().trim_end_matches(" kB").parse().ok()
    };
    let files = u32::try_from(std::fs::read_dir(folder.join("fd")).ok()?.count()).ok()?;
    Some(Sample {
        seconds: 0.0,
        resident: field("VmRSS:")?,
        anonymous: field("RssAnon:")?,
        files: files.into(),
        threads: field("Threads:")?,
    })
}

/// Returns the mean of a figure in one quarter of the samples. The quarters have the numbers 0 to 3.
fn mean(samples: &[Sample], quarter: usize, value: fn(&Sample) -> f64) -> f64 {
    let part = &samples[samples.len() * quarter / 4..samples.len() * (quarter + 1) / 4];
    let count = u32::try_from(part.len()).unwrap();
    part.iter().map(value).sum::<f64>() / f64::from(count)
}

fn is_flat(&(_, value, tolerance): &Figure, samples: &[Sample]) -> bool {
    let (first, last) = (mean(samples, 0, value), mean(samples, 3, value));
    // Without samples, both means are NaN. NaN is never within a tolerance, so the figure does not count as flat.
    tolerance.is_none_or(|(most, in_percent)| {
        let change = (last - first).abs();
        if in_percent { change / first * 100.0 <= most } else { change <= most }
    })
}

/// Returns a table with each figure's mean in each quarter, its change, and its least and greatest value.
fn table(samples: &[Sample]) -> String {
    let span = samples.last().map_or(0.0, |last| last.seconds) / 60.0;
    let mut text = format!("{} samples in {span:.1} min\n", samples.len());
    let heads = ["quarter 1", "quarter 2", "quarter 3", "quarter 4", "change", "least", "most"];
    let _ = write!(text, "{:<24}", "");
    for head in heads {
        let _ = write!(text, "{head:>11}");
    }
    for &(name, value, _) in &FIGURES {
        let means = [0, 1, 2, 3].map(|quarter| mean(samples, quarter, value));
        let _ = write!(text, "\n{name:<24}");
        for mean in means {
            let _ = write!(text, "{mean:>11.1}");
        }
        let _ = write!(text, "{:>10.1}%", (means[3] / means[0] - 1.0) * 100.0);
        let (least, most) = samples
            .iter()
            .map(value)
            .fold((f64::INFINITY, 0.0_f64), |(least, most), value| (least.min(value), most.max(value)));
        let _ = write!(text, "{least:>11.0}{most:>11.0}");
    }
    text
}

#[test]
fn detects_growth() {
    let samples = |growth: f64| -> Vec<Sample> {
        let at = |number: u32| 1000.0 + growth * f64::from(number);
        (0..40).map(|number| Sample { resident: at(number), files: at(number), ..Sample::default() }).collect()
    };
    let [memory, files] = [&FIGURES[0], &FIGURES[2]];
    assert!(is_flat(memory, &samples(0.0)) && is_flat(files, &samples(0.0)));
    assert!(is_flat(memory, &samples(1.0)), "30 of 1005 KiB are less than 5 %");
    assert!(!is_flat(files, &samples(1.0)), "30 more files");
    assert!(!is_flat(memory, &samples(2.0)) && !is_flat(memory, &samples(-2.0)));
    assert!(!is_flat(memory, &[]), "a test without samples must fail");
}
