//! Measures `osdpl validate` as users run it: as a process, with every sample.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use osdpl_core::catalog::Catalog;
use osdpl_core::files;

use super::plan::{mark, median, timed};

const ROUNDS: usize = 15;
const GOAL: Duration = Duration::from_millis(100);

/// Measures `osdpl validate` with each sample and prints the medians. Each round measures all samples, so that a
/// gradual change of the machine's speed affects all results.
pub fn measure(osdpl: &Path, folder: &Path) -> anyhow::Result<()> {
    let samples = samples(folder)?;
    let mut durations = vec![Vec::new(); samples.len()];
    let (mut load, mut start) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        for (sample, durations) in samples.iter().zip(&mut durations) {
            durations.push(process(Command::new(osdpl).arg("validate").arg(sample))?);
        }
        start.push(process(Command::new(osdpl).arg("--version"))?);
        let (catalog, took) = timed(|| Catalog::load(&files::built_in()));
        catalog?;
        load.push(took);
    }
    let (load, start) = (median(load), median(start));
    let mut medians: Vec<(Duration, &PathBuf)> = durations.into_iter().map(median).zip(&samples).collect();
    medians.sort_unstable();
    println!("\nmedians of {ROUNDS}, ms: the process, then the load of the catalogue (share of the process)");
    let largest = medians.last().map_or(Duration::ZERO, |(duration, _)| *duration);
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    for (duration, sample) in medians.into_iter().rev() {
        let share = 100.0 * load.as_secs_f64() / duration.as_secs_f64();
        println!("osdpl validate {:<20} {:>6.1}  {:>6.1} ({share:.0} %)", name(sample), ms(duration), ms(load));
    }
    println!("osdpl --version {:>26.1}", ms(start));
    println!("goal: the slowest sample in {} ms or less: {}", GOAL.as_millis(), mark(largest <= GOAL));
    Ok(())
}

fn samples(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let paths: Result<Vec<PathBuf>, _> = entries.map(|entry| Ok::<_, std::io::Error>(entry?.path())).collect();
    let mut paths = paths?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    paths.sort();
    Ok(paths)
}

fn name(path: &Path) -> std::borrow::Cow<'_, str> {
    path.file_name().unwrap_or_default().to_string_lossy()
}

fn process(command: &mut Command) -> anyhow::Result<Duration> {
    let (status, took) = timed(|| command.stdin(Stdio::null()).stdout(Stdio::null()).status());
    match status.with_context(|| format!("starting {command:?}"))? {
        status if status.success() => Ok(took),
        status => bail!("{command:?} ended with {status}"),
    }
}
