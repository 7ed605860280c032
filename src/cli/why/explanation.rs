//! Explains why something is not ready, for `osdpl why`, and formats the explanation as text.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::names::{Subject, workloads_of_component};
use osdpl_core::api::{CauseObject, ComponentHealth};
use osdpl_core::cause::{AffectedObject, Chain};
use osdpl_core::health::{self, CRON_JOB, JobHealth};
use osdpl_core::observed::{ObservedCronJob, ObservedJob, ReleaseKey, Workload};
use osdpl_core::plan::{Step, Wait};
use osdpl_operator::controller::Preview;

/// The answer to the question why something is not ready: lines of text, chains from objects that are not ready to
/// their root causes, and the objects that the user should inspect.
pub(crate) struct Explanation {
    lines: Vec<String>,
    chains: Vec<Chain>,
    inspect: Vec<CauseObject>,
    is_ready: bool,
}

impl Default for Explanation {
    /// Returns an empty explanation, which means that every object that the user asked about is ready.
    fn default() -> Self {
        Self { lines: Vec::new(), chains: Vec::new(), inspect: Vec::new(), is_ready: true }
    }
}

impl Explanation {
    /// Explains every release and object that is not ready. Groups the objects by root cause.
    pub(crate) fn of_all(preview: &Preview) -> Self {
        let mut explanation = Self::default();
        let observation = preview.tasks.observe();
        let (mut explained, mut inspect) = (BTreeSet::new(), Vec::new());
        for cause in observation.causes() {
            explanation.lines.push(cause.message.clone());
            for affected in
                observation.affected_objects().iter().filter(|affected| affected.chain.root() == cause.message)
            {
                explained.insert(&affected.release);
                explanation.chains.push(affected.chain.clone());
                explanation.lines.extend(describe_wait(&affected.chain));
            }
            inspect.extend(cause.objects.iter().cloned());
        }
        explanation.is_ready = explanation.lines.is_empty();
        for (name, decision) in &preview.plan.decisions {
            if !explained.contains(&decision.key) {
                explanation.release_unless_ready(name, preview);
            }
        }
        explanation.inspect.splice(0..0, inspect);
        if explanation.is_ready {
            explanation.lines.push("everything is ready".into());
        }
        explanation
    }

    /// Explains why the releases, workloads, Job or `CronJob` that the user named are not ready.
    pub(crate) fn of_subject(subject: &Subject<'_>, preview: &Preview) -> Self {
        let mut explanation = Self::default();
        match subject {
            Subject::Releases(names) => names.iter().for_each(|name| explanation.release(name, preview)),
            Subject::Workloads(name, workloads) => explanation.workloads(name, workloads, preview),
            Subject::Job(job) => explanation.job(job, preview),
            Subject::Cron(cron) => explanation.cron(cron, preview),
        }
        explanation
    }

    /// Explains a pod that is not ready.
    pub(crate) fn of_pod(namespace: &str, name: &str, chain: &Chain) -> Self {
        let mut explanation = Self::default();
        let pod = CauseObject { kind: "Pod".into(), namespace: namespace.into(), name: name.into() };
        explanation.chain(chain);
        explanation.lines.insert(0, format!("pod {name} belongs to {}", chain.links[0].object));
        explanation.inspect.insert(0, pod);
        explanation
    }

    /// Says why a pod needs no explanation: it is completed, is ready, or belongs to no release of the cloud.
    pub(crate) fn of_ready_pod(name: &str, phase: &str) -> Self {
        let state = if phase == "Succeeded" { "is completed" } else { "is ready, or does not belong to a release" };
        Self { lines: vec![format!("pod {name} {state} ({phase})")], ..Self::default() }
    }

    /// Whether everything that the user asked about is ready.
    pub(crate) fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// Returns the lines of the explanation's text.
    pub(crate) fn lines(&self) -> &[String] {
        &self.lines
    }

    /// Returns the chains from objects that are not ready to their root causes.
    pub(crate) fn chains(&self) -> &[Chain] {
        &self.chains
    }

    /// Returns the objects that the user should inspect to find the cause, each object once.
    pub(crate) fn objects_to_inspect(&self) -> Vec<&CauseObject> {
        let mut objects: Vec<&CauseObject> = Vec::new();
        for object in &self.inspect {
            if !objects.contains(&object) {
                objects.push(object);
            }
        }
        objects
    }

    /// Returns the explanation as text.
    pub(crate) fn text(&self) -> String {
        let mut text = self.lines.join("\n") + "\n";
        let objects = self.objects_to_inspect();
        if !objects.is_empty() {
            text.push_str("\nInspect:\n");
        }
        for object in objects {
            let _ = writeln!(text, "  {}", command(object));
        }
        text
    }

    /// Explains a release that is not ready. Does nothing if the release is ready.
    fn release_unless_ready(&mut self, name: &str, preview: &Preview) {
        let ready = preview.plan.decisions.get(name).is_none_or(|decision| decision.step == Step::Ready);
        if !ready {
            self.release(name, preview);
        }
    }

    fn release(&mut self, name: &str, preview: &Preview) {
        let Some(decision) = preview.plan.decisions.get(name) else { return };
        let state = match &decision.step {
            Step::Ready => {
                self.lines.push(format!("release {name} is ready"));
                self.add_chains(preview, |affected| affected.release == decision.key && is_cron(affected));
                return;
            }
            Step::Settling(lines) => lines.join("; "),
            Step::Wait(wait) => wait.to_string(),
            Step::Do(action, why) => format!("{action}: {why}"),
        };
        self.is_ready = false;
        self.lines.push(format!("release {name} is not ready: {state}"));
        let ReleaseKey { namespace, name } = decision.key.clone();
        self.add_chains(preview, |affected| affected.release == decision.key);
        if let Step::Wait(Wait::Needs(components)) = &decision.step {
            for component in components {
                self.workloads(&component.to_string(), &workloads_of_component(preview, component), preview);
            }
        }
        self.inspect.push(CauseObject { kind: "Release".into(), namespace, name });
    }

    fn workloads(&mut self, name: &str, workloads: &[&Workload], preview: &Preview) {
        let verdict = match workloads.iter().find(|workload| preview.observed.is_scaled_to_zero(workload)) {
            Some(workload) => health::scaled_to_zero(workload),
            None => health::aggregate(workloads),
        };
        if verdict.status == ComponentHealth::Ready {
            return self.lines.push(format!("{name} is ready ({})", verdict.ready));
        }
        self.is_ready = false;
        let objects: Vec<CauseObject> = workloads.iter().map(|workload| workload_object(workload)).collect();
        let is_explained = self.add_chains(preview, |affected| objects.contains(&affected.chain.links[0].object));
        if !is_explained {
            let reason = if verdict.reason.is_empty() { String::new() } else { format!(": {}", verdict.reason) };
            self.lines.push(format!("{name} is {:?} ({}){reason}", verdict.status, verdict.ready));
            self.inspect.extend(objects);
        }
    }

    fn job(&mut self, job: &ObservedJob, preview: &Preview) {
        let why = match health::job_health(job) {
            JobHealth::Complete => return self.lines.push(format!("Job {} is complete", job.name)),
            JobHealth::Running(why) | JobHealth::Failing(why) | JobHealth::Failed(why) => why,
        };
        self.is_ready = false;
        let object = CauseObject { kind: "Job".into(), namespace: job.namespace.clone(), name: job.name.clone() };
        if !self.add_chains(preview, |affected| affected.chain.links[0].object == object) {
            let why = if why.is_empty() { "it runs".to_owned() } else { why };
            self.lines.push(format!("Job {} is not complete: {why}", job.name));
            self.inspect.push(object);
        }
    }

    fn cron(&mut self, cron: &ObservedCronJob, preview: &Preview) {
        if !self.add_chains(preview, |affected| is_cron(affected) && affected.chain.links[0].object.name == cron.name) {
            let state = if cron.suspended { "is suspended" } else { "does not fail" };
            self.lines.push(format!("CronJob {} {state}", cron.name));
        }
    }

    /// Adds a chain for each object that is not ready and for which `matches` is true. Returns whether there is such an
    /// object.
    fn add_chains(&mut self, preview: &Preview, matches: impl Fn(&AffectedObject) -> bool) -> bool {
        let observation = preview.tasks.observe();
        let mut any = false;
        for affected in observation.affected_objects().iter().filter(|affected| matches(affected)) {
            self.chain(&affected.chain);
            any = true;
        }
        any
    }

    /// Adds a chain to the explanation: a line for each object from the affected object to the root cause, and the
    /// objects that the user should inspect.
    fn chain(&mut self, chain: &Chain) {
        self.is_ready = false;
        self.chains.push(chain.clone());
        let last = chain.links.len() - 1;
        for (index, link) in chain.links.iter().enumerate() {
            let why = chain.why.as_ref().filter(|_| index == last).map(|why| format!(": {why}")).unwrap_or_default();
            let verb = if index == 0 && last > 0 { " waits for" } else { "" };
            self.lines.push(format!("{}{}{verb}{why}", if index == 0 { "" } else { "  ← " }, link.label));
        }
        self.inspect.extend(chain.inspect.iter().cloned());
        self.inspect.extend(chain.links.iter().rev().map(|link| link.object.clone()));
    }
}

fn is_cron(affected: &AffectedObject) -> bool {
    affected.chain.links[0].object.kind == CRON_JOB
}

/// Returns a line about an object that waits for the root cause, such as `nova/compute waits for
/// mariadb/server, through neutron/ovs-agent`.
fn describe_wait(chain: &Chain) -> Option<String> {
    let [affected, between @ .., root] = chain.links.as_slice() else { return None };
    let through: Vec<_> = between.iter().map(|link| link.label.as_str()).collect();
    let through = if through.is_empty() { String::new() } else { format!(", through {}", through.join(" ← ")) };
    Some(format!("  {} waits for {}{through}", affected.label, root.label))
}

fn workload_object(workload: &Workload) -> CauseObject {
    let Workload { kind, namespace, name, .. } = workload;
    CauseObject { kind: format!("{kind:?}"), namespace: namespace.clone(), name: name.clone() }
}

/// Returns the command that shows an object: `kubectl describe`, or `helm status` for a helm release.
pub(crate) fn command(object: &CauseObject) -> String {
    let CauseObject { kind, namespace, name } = object;
    match (kind.as_str(), namespace.as_str()) {
        ("Release", namespace) => format!("helm -n {namespace} status {name}"),
        (kind, "") => format!("kubectl describe {} {name}", kind.to_lowercase()),
        (kind, namespace) => format!("kubectl -n {namespace} describe {} {name}", kind.to_lowercase()),
    }
}
