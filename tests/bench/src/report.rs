//! Prints the medians and ratios of the measurements, and whether they meet the goals.

use std::collections::BTreeMap;
use std::fmt;
use std::process::ExitCode;
use std::time::Duration;

use clap::ValueEnum;

use crate::scale::Scale;
use crate::steady::Steady;

/// A method to install the cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Method {
    /// Plain helm, one release after another.
    Sequential,
    /// Plain helm, each release as soon as, for all releases that it depends on, helm has exited and the workloads are
    /// available.
    Ordered,
    /// Plain helm, all releases at once.
    AtOnce,
    /// The operator, which runs helm for each release.
    Operator,
}

impl Method {
    /// All methods, in the order of the report.
    pub const ALL: [Self; 4] = [Self::Sequential, Self::Ordered, Self::AtOnce, Self::Operator];
}

impl fmt::Display for Method {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Sequential => "plain helm, one after another",
            Self::Ordered => "plain helm, in dependency order",
            Self::AtOnce => "plain helm, all at once",
            Self::Operator => "the operator",
        })
    }
}

/// The time and the CPU time that one installation took.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// The time from the first command until the end of the installation (see `main.rs`).
    pub wall: Duration,
    /// The CPU time of helm's processes.
    pub helm: Duration,
    /// The CPU time of the operator itself, without its helm processes.
    pub operator: Duration,
}

impl fmt::Display for Cost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { wall, helm, operator } = self;
        write!(formatter, "{:6.1} s, {:5.1} s CPU of helm", wall.as_secs_f64(), helm.as_secs_f64())?;
        write!(formatter, ", {:4.1} s of the operator", operator.as_secs_f64())
    }
}

/// The limits that the measurements must not exceed.
mod goals {
    /// The operator's maximum time, as a fraction of the time of [`super::Method::Ordered`].
    pub const OF_ORDERED: f64 = 0.9;
    /// The operator's maximum time, as a fraction of the time of [`super::Method::AtOnce`].
    pub const OF_AT_ONCE: f64 = 1.25;
    pub const RESIDENT_KIB: u64 = 25 * 1024;
    /// The maximum time from the change of one key until helm starts.
    pub const DELAY_MS: f64 = 200.0;
    pub const RESIDENT_AT_SCALE_KIB: u64 = 40 * 1024;
    pub const STATUS_DELAY_MS: f64 = 1000.0;
    /// The operator's maximum CPU time in an idle minute, as a fraction of one core.
    pub const IDLE: f64 = 0.01;
}

/// All measurements of one run of the benchmark.
#[derive(Default)]
pub struct Report {
    costs: BTreeMap<Method, Vec<Cost>>,
    /// The measurements of the operator on an installed cloud; `None` if they were skipped.
    pub steady: Option<Steady>,
    /// The measurements of the operator on a large cloud; `None` if the user did not request them.
    pub scale: Option<Scale>,
}

/// One line of the report: a measured value, its goal, and whether the goal is met.
struct Line {
    name: String,
    measured: String,
    goal: String,
    is_met: bool,
}

impl Report {
    /// Adds the cost of one installation.
    pub fn add(&mut self, method: Method, cost: Cost) {
        self.costs.entry(method).or_default().push(cost);
    }

    fn median(&self, method: Method) -> Option<Cost> {
        let costs = self.costs.get(&method)?;
        let median_of = |part: fn(&Cost) -> Duration| median(costs.iter().map(part).collect());
        Some(Cost {
            wall: median_of(|cost| cost.wall)?,
            helm: median_of(|cost| cost.helm)?,
            operator: median_of(|cost| cost.operator)?,
        })
    }

    fn ratio(&self, other: Method, goal: f64) -> Option<Line> {
        let ratio = self.median(Method::Operator)?.wall.as_secs_f64() / self.median(other)?.wall.as_secs_f64();
        Some(Line {
            name: format!("the operator's time / {other}"),
            measured: format!("{ratio:.2}"),
            goal: format!("≤ {goal}"),
            is_met: ratio <= goal,
        })
    }

    fn lines(&self) -> Vec<Line> {
        let ratios = [self.ratio(Method::Ordered, goals::OF_ORDERED), self.ratio(Method::AtOnce, goals::OF_AT_ONCE)];
        let mut lines: Vec<Line> = ratios.into_iter().flatten().collect();
        if let Some(steady) = &self.steady {
            lines.extend(steady_lines(steady));
        }
        if let Some(scale) = &self.scale {
            lines.extend(scale_lines(scale));
        }
        lines
    }

    /// Returns the exit code: 2 if the operator misses a goal, otherwise 0.
    pub fn code(&self) -> ExitCode {
        if self.lines().iter().all(|line| line.is_met) { ExitCode::SUCCESS } else { ExitCode::from(2) }
    }
}

fn steady_lines(steady: &Steady) -> Vec<Line> {
    let none = |name: &str, count: u64| Line {
        name: name.into(),
        measured: count.to_string(),
        goal: "0".into(),
        is_met: count == 0,
    };
    let (delay, maximum) = median_and_maximum(&steady.delays);
    vec![
        Line {
            name: "the operator's resident memory, 60 s after the install".into(),
            measured: format!("{:.1} MiB (peak {:.1})", mib(steady.resident), mib(steady.peak)),
            goal: "≤ 25 MiB".into(),
            is_met: steady.resident <= goals::RESIDENT_KIB,
        },
        none("helm processes in an idle minute, with the same resource applied again", steady.idle_helm),
        none("API writes in that minute, except for the Lease", steady.idle_writes),
        Line {
            name: "from a one-key change to helm's start".into(),
            measured: format!("{delay:.0} ms (of {}, at most {maximum:.0})", steady.delays.len()),
            goal: "≤ 200 ms".into(),
            is_met: delay <= goals::DELAY_MS,
        },
        Line {
            name: "helm processes for a one-key change".into(),
            measured: format!("{:?}", steady.change_helm),
            goal: "1 each".into(),
            is_met: steady.change_helm.iter().all(|count| *count == 1),
        },
    ]
}

fn scale_lines(scale: &Scale) -> Vec<Line> {
    let (delay, maximum) = median_and_maximum(&scale.delays);
    let size = format!("{} releases, {} pods", scale.releases, scale.pods);
    let line = |name: &str, measured: String, goal: &str, is_met: bool| Line {
        name: name.into(),
        measured,
        goal: goal.into(),
        is_met,
    };
    vec![
        line(
            &format!("resident memory with {size}"),
            format!("{:.1} MiB (peak {:.1})", mib(scale.resident), mib(scale.peak)),
            "≤ 40 MiB",
            scale.resident <= goals::RESIDENT_AT_SCALE_KIB,
        ),
        line(
            "from an unready pod to the updated status",
            format!("{delay:.0} ms (of {}, at most {maximum:.0})", scale.delays.len()),
            "≤ 1 s",
            maximum <= goals::STATUS_DELAY_MS,
        ),
        line(
            "CPU time in an idle minute, of one core",
            format!("{:.2} %", scale.idle * 100.0),
            "< 1 %",
            scale.idle < goals::IDLE,
        ),
    ]
}

#[expect(clippy::cast_precision_loss, reason = "for display only")]
fn mib(kib: u64) -> f64 {
    kib as f64 / 1024.0
}

/// Returns the median and the maximum of the delays, in milliseconds.
fn median_and_maximum(delays: &[Duration]) -> (f64, f64) {
    let ms = |delay: Option<Duration>| delay.unwrap_or_default().as_secs_f64() * 1000.0;
    (ms(median(delays.to_vec())), ms(delays.iter().max().copied()))
}

fn median<T: Ord + Copy>(mut values: Vec<T>) -> Option<T> {
    values.sort_unstable();
    values.get(values.len().checked_sub(1)? / 2).copied()
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.costs.is_empty() {
            writeln!(formatter, "{:<30} {:>8} {:>10} {:>14}", "medians", "wall s", "helm CPU s", "operator CPU s")?;
        }
        for method in self.costs.keys() {
            if let Some(Cost { wall, helm, operator }) = self.median(*method) {
                let (wall, helm, operator) = (wall.as_secs_f64(), helm.as_secs_f64(), operator.as_secs_f64());
                writeln!(formatter, "{method:<30} {wall:>8.1} {helm:>10.1} {operator:>14.1}")?;
            }
        }
        if !self.costs.is_empty() {
            writeln!(formatter)?;
        }
        for Line { name, measured, goal, is_met } in self.lines() {
            let mark = if is_met { "✔" } else { "✘" };
            writeln!(formatter, "{mark} {name:<66} {measured:<26} goal {goal}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_the_lower_middle_of_even_counts() {
        assert_eq!(median(vec![9, 1, 5]), Some(5));
        assert_eq!(median(vec![2, 1]), Some(1));
        assert_eq!(median::<u8>(vec![]), None);
    }
}
