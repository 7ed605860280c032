//! `osdpl charts`: locks, pulls and lists the charts.

#![allow(clippy::disallowed_methods, reason = "the user names these files on the command line")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{Context as _, anyhow, bail};

use super::chart_options::ChartOptions;
use super::output;
use osdpl_operator::charts::{
    Chart, ChartRequest, Error, Lock, LockEntry, LockState, Pull, Source, Store, UPSTREAM, keys, write_atomically,
};

/// Lock, pull and list the charts.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Write the lock (version and digest of each chart), and each chart's key tree (the keys that its values can have)
    Lock(LockArguments),
    /// Fill a folder with charts, for a container image or an air-gapped cluster
    Pull(PullArguments),
    /// Show the charts: name, version, digest, source
    List(ChartOptions),
}

#[derive(Debug, clap::Args)]
struct LockArguments {
    #[command(flatten)]
    chart_options: ChartOptions,
    /// The folder to write `lock.yaml` and `keys/` to. If the folder already has a `lock.yaml`, osdpl by default locks
    /// the charts and versions in this file
    #[arg(long, value_name = "FOLDER", default_value = "values")]
    out: PathBuf,
    /// Use the newest version of each chart in the repository, instead of the version in the lock
    #[arg(long)]
    newest: bool,
    /// Write only the key trees, and leave the lock unchanged
    #[arg(long)]
    keys_only: bool,
    /// The charts, as NAME or NAME@VERSION; default: the charts of the lock
    #[arg(value_name = "CHART")]
    charts: Vec<ChartArgument>,
}

#[derive(Debug, clap::Args)]
struct PullArguments {
    #[command(flatten)]
    chart_options: ChartOptions,
    /// The folder to fill
    #[arg(long, value_name = "FOLDER")]
    to: PathBuf,
    /// The charts, as NAME or NAME@VERSION; default: the charts of the lock
    #[arg(value_name = "CHART")]
    charts: Vec<ChartArgument>,
}

/// A chart as NAME or NAME@VERSION.
#[derive(Clone, Debug)]
struct ChartArgument(ChartRequest);

impl FromStr for ChartArgument {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, version) =
            text.split_once('@').map_or((text, None), |(name, version)| (name, Some(version.to_owned())));
        Ok(Self(ChartRequest { version, ..ChartRequest::locked(name) }))
    }
}

impl Arguments {
    /// Runs the subcommand. Results go to standard output, errors about charts to standard error.
    ///
    /// # Errors
    /// Returns an error if the subcommand failed for a chart, or if there is no chart. After a failure, the subcommand
    /// continues with the next chart.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        match self.command {
            Command::Lock(arguments) => arguments.run().await,
            Command::Pull(arguments) => arguments.run().await,
            Command::List(options) => options.list().await,
        }
    }
}

impl LockArguments {
    async fn run(self) -> anyhow::Result<()> {
        let file = self.out.join("lock.yaml");
        let mut lock = if file.exists() { self.chart_options.read_lock(&file)? } else { Lock::default() };
        // The new lock accepts the charts that the repository has now, even if their digests have changed. With the
        // digests of the old lock, the store would refuse the changed charts. So give the store the old lock without
        // digests.
        let mut unpinned = lock.clone();
        unpinned.charts.values_mut().for_each(|pinned| pinned.digest = None);
        let pull = self.chart_options.puller().await?;
        let store = self.chart_options.store(unpinned, Arc::clone(&pull))?;
        let mut results = Results::default();
        for request in requests(&store, &self.charts)? {
            let locked = self.lock_one(&store, pull.as_ref(), request).await;
            if let Some((chart, keys)) = results.record(locked) {
                output::line(format_args!("{} {} {} {keys}", chart.name, chart.version, chart.digest));
                lock.charts.insert(chart.name.clone(), lock_entry(&chart, store.source()));
            }
        }
        if !self.keys_only {
            write(&file, &lock.to_yaml())?;
        }
        results.finish("locked")
    }

    async fn lock_one(&self, store: &Store, pull: &dyn Pull, request: ChartRequest) -> anyhow::Result<(Chart, String)> {
        let request = self.newest(store, pull, request).await?;
        let chart = store.obtain(&request).await?;
        let keys = self.write_keys(&chart)?;
        Ok((chart, keys))
    }

    /// Sets the version in a request to the newest version of the chart in the repository. Returns the request
    /// unchanged if the user named a version, if the lock has a version and `--newest` is not set, or if the source is
    /// a folder.
    async fn newest(&self, store: &Store, pull: &dyn Pull, request: ChartRequest) -> anyhow::Result<ChartRequest> {
        let Source::Repository { url } = store.source() else { return Ok(request) };
        let is_locked = store.lock().charts.contains_key(&request.name);
        if request.version.is_some() || (is_locked && !self.newest) {
            return Ok(request);
        }
        let newest = pull.newest(url, &request.name).await;
        let newest = newest.map_err(|failure| anyhow::anyhow!("chart {} from {url}: {failure}", request.name))?;
        Ok(ChartRequest { version: Some(newest), ..request })
    }

    fn write_keys(&self, chart: &Chart) -> anyhow::Result<String> {
        let file = self.out.join("keys").join(format!("{}.json", chart.name));
        write(&file, &keys::to_json(&chart.default_values()?, &chart.reads()?)?)?;
        Ok(file.display().to_string())
    }
}

fn lock_entry(chart: &Chart, source: &Source) -> LockEntry {
    let repository = match source {
        Source::Repository { url } if url != UPSTREAM => Some(url.clone()),
        Source::Repository { .. } | Source::Folder(_) => None,
    };
    LockEntry { version: chart.version.clone(), digest: Some(chart.digest.clone()), repository }
}

impl PullArguments {
    async fn run(self) -> anyhow::Result<()> {
        let store = self.chart_options.open().await?;
        let mut results = Results::default();
        for request in requests(&store, &self.charts)? {
            let pulled = store.obtain(&request).await.map_err(anyhow::Error::from).and_then(|chart| {
                let file = self.to.join(format!("{}-{}.tgz", chart.name, chart.version));
                let mut archive = std::fs::File::open(&chart.path)
                    .with_context(|| format!("osdpl can't read {}", chart.path.display()))?;
                write_atomically(&file, |to| std::io::copy(&mut archive, to).map(drop))
                    .map_err(|error| unwritable(&file, &error))?;
                Ok((file, chart))
            });
            if let Some((file, chart)) = results.record(pulled) {
                output::line(format_args!("{} {} ({})", file.display(), chart.digest, chart.pin));
            }
        }
        results.finish("pulled")
    }
}

impl ChartOptions {
    async fn list(self) -> anyhow::Result<()> {
        // The lock contains the versions and digests of a repository's charts. So `osdpl charts list` needs no helm,
        // and the store need not pull any chart.
        let store = self.open_without_pull()?;
        let mut rows = vec![["NAME", "VERSION", "DIGEST", "FROM", "LOCK"].map(str::to_owned)];
        let mut results = Results::default();
        for (name, _) in store.list_charts()? {
            if let (Source::Repository { url }, Some(pinned)) = (store.source(), store.lock().charts.get(&name)) {
                let LockEntry { version, digest, repository } = pinned.clone();
                let state = if digest.is_some() { LockState::Pinned } else { LockState::VersionOnly };
                let digest = digest.map_or_else(|| "-".to_owned(), |digest| digest.to_string());
                rows.push([name, version, digest, repository.unwrap_or_else(|| url.clone()), state.to_string()]);
                results.done += 1;
                continue;
            }
            let chart = store.obtain(&ChartRequest::locked(&name)).await;
            if let Some(Chart { version, digest, origin, pin, .. }) = results.record(chart) {
                rows.push([name, version, digest.to_string(), origin, pin.to_string()]);
            }
        }
        output::print(table(&rows));
        results.finish("read")
    }
}

/// Returns the charts that the subcommand processes: the charts that the user names.
///
/// If the user names none, returns all charts in the lock. If the lock is also empty, returns every chart of the source
/// that helm can install.
fn requests(store: &Store, arguments: &[ChartArgument]) -> Result<Vec<ChartRequest>, Error> {
    if !arguments.is_empty() {
        return Ok(arguments.iter().map(|ChartArgument(request)| request.clone()).collect());
    }
    if !store.lock().charts.is_empty() {
        return Ok(store.lock().charts.keys().map(ChartRequest::locked).collect());
    }
    Ok(store
        .list_charts()?
        .into_iter()
        .filter(|(_, installable)| *installable)
        .map(|(name, _)| ChartRequest::locked(name))
        .collect())
}

fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    write_atomically(file, |to| std::io::Write::write_all(to, text.as_bytes()))
        .map_err(|error| unwritable(file, &error))
}

/// Returns the error for a file that osdpl can't write.
fn unwritable(file: &Path, error: &std::io::Error) -> anyhow::Error {
    anyhow!("osdpl can't write {}: {error}; check free space and permissions", file.display())
}

/// The number of charts for which the subcommand succeeded, and the number for which it failed.
#[derive(Default)]
struct Results {
    done: usize,
    failed: usize,
}

impl Results {
    /// Counts the result for one chart, and returns the value of a successful result. If the command failed for this
    /// chart, prints the error and returns `None`.
    fn record<T, E: Into<anyhow::Error>>(&mut self, result: Result<T, E>) -> Option<T> {
        match result {
            Ok(value) => {
                self.done += 1;
                Some(value)
            }
            Err(error) => {
                self.failed += 1;
                eprintln!("{:#}", error.into());
                None
            }
        }
    }

    /// Returns an error if the command failed for a chart, or if there was no chart. `verb` is the participle for the
    /// message, such as `pulled`.
    fn finish(self, verb: &str) -> anyhow::Result<()> {
        match self {
            Self { done: 0, failed: 0 } => {
                bail!("no chart was {verb}: neither the lock nor the source has any; name the charts")
            }
            Self { failed: 0, .. } => Ok(()),
            Self { done, failed } => {
                bail!("{failed} of {} charts could not be {verb}; see the errors above", done + failed)
            }
        }
    }
}

fn table<const COLUMNS: usize>(rows: &[[String; COLUMNS]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<_> = (0..COLUMNS).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(line, "{cell:width$}  ");
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}
