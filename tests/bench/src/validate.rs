//! `osdpl validate` as users run it: the whole process for every sample.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use osdpl_core::catalog::Catalog;
use osdpl_core::files;

use super::plan::{mark, middle, timed};

const ROUNDS: usize = 15;
const GOAL: Duration = Duration::from_millis(100);

/// Measures and prints; the samples alternate, to spread any drift.
pub fn measure(osdpl: &Path, folder: &Path) -> anyhow::Result<()> {
    let samples = samples(folder)?;
    let mut taken = vec![Vec::new(); samples.len()];
    let (mut load, mut start) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        for (sample, taken) in samples.iter().zip(&mut taken) {
            taken.push(process(Command::new(osdpl).arg("validate").arg(sample))?);
        }
        start.push(process(Command::new(osdpl).arg("--version"))?);
        let (catalog, took) = timed(|| Catalog::load(&files::built_in()));
        catalog?;
        load.push(took);
    }
    let (load, start) = (middle(load), middle(start));
    let mut whole: Vec<(Duration, &PathBuf)> = taken.into_iter().map(middle).zip(&samples).collect();
    whole.sort_unstable();
    println!("\nmedians of {ROUNDS}, ms, whole process           load of the catalogue in it");
    let largest = whole.last().map_or(Duration::ZERO, |(whole, _)| *whole);
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    for (whole, sample) in whole.into_iter().rev() {
        let share = 100.0 * load.as_secs_f64() / whole.as_secs_f64();
        println!("osdpl validate {:<20} {:>6.1}  {:>6.1} ({share:.0} %)", name(sample), ms(whole), ms(load));
    }
    println!("osdpl --version {:>26.1}", ms(start));
    println!("goal: osdpl validate of the largest in {} ms or less: {}", GOAL.as_millis(), mark(largest <= GOAL));
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
