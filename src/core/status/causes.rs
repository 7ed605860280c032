//! `status.causes`: each root once, with what waits for it.

use k8s_openapi::jiff::Timestamp;

use super::Report;
use crate::api::CauseStatus;
use crate::observed::Cause;

/// How many causes are told; the rest is told once these are mended.
const MOST: usize = 20;

/// How many victims of one cause are named.
const MOST_VICTIMS: usize = 20;

/// How many victims a condition's message names.
const GLANCE: usize = 3;

/// The causes that concern the resource's releases, the gravest first.
fn own<'a>(report: &'a Report<'_>) -> impl Iterator<Item = &'a Cause> {
    let ours = |cause: &&Cause| report.plan.decisions.values().any(|decision| cause.releases.contains(&decision.key));
    report.observed.causes.iter().filter(ours)
}

/// What is to be mended. One that was there before keeps its time.
pub fn causes(before: &[CauseStatus], report: &Report<'_>, now: Timestamp) -> Vec<CauseStatus> {
    let told = own(report).take(MOST).map(|cause| {
        let known = before.iter().find(|known| known.message == cause.message);
        CauseStatus {
            message: cause.message.clone(),
            objects: cause.objects.clone(),
            victims: named(&cause.victims, MOST_VICTIMS),
            since: known.map_or_else(|| format!("{now:.0}"), |known| known.since.clone()),
        }
    });
    told.collect()
}

/// A message that begins with the first cause, where there is one; `grave` leaves out what may come by itself.
pub fn led(message: String, report: &Report<'_>, grave: bool) -> String {
    let holds_up = |cause: &&Cause| !cause.is_periodic() && (cause.stuck || !grave);
    let Some(first) = own(report).find(holds_up) else { return message };
    let line = line(first);
    // The same reason under another name adds nothing.
    let repeats = first.message.split_once(": ").is_some_and(|(_, why)| message.contains(why));
    if repeats || message.is_empty() { line } else { format!("{line}; {message}") }
}

/// The cause and who waits for it, in one line.
fn line(cause: &Cause) -> String {
    let victims = named(&cause.victims, GLANCE);
    if victims.is_empty() {
        cause.message.clone()
    } else {
        format!("{} ({} waiting)", cause.message, victims.join(", "))
    }
}

fn named(all: &[String], most: usize) -> Vec<String> {
    let mut named: Vec<String> = all.iter().take(most).cloned().collect();
    if all.len() > most {
        named.push(format!("and {} more", all.len() - most));
    }
    named
}

#[cfg(test)]
mod tests;
