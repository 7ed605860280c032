//! Collects the explanation of `osdpl why` and formats it as text.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::asked::{Subject, of_component};
use osdpl_core::api::{CauseObject, ComponentHealth};
use osdpl_core::cause::{AffectedObject, Chain};
use osdpl_core::health::{self, JobHealth, cron};
use osdpl_core::observed::{ObservedCronJob, ObservedJob, ReleaseKey, Workload};
use osdpl_core::plan::{Step, Wait};
use osdpl_operator::controller::Preview;

/// Lines about each requested subject, and the objects to inspect.
#[derive(Default)]
pub struct Explanation {
    lines: Vec<String>,
    chains: Vec<Chain>,
    look: Vec<CauseObject>,
    waiting: bool,
}

impl Explanation {
    /// Explains everything that is not ready, by root cause.
    pub fn of_all(preview: &Preview) -> Self {
        let mut explanation = Self::default();
        let seen = preview.tasks.observe();
        let (mut covered, mut look) = (BTreeSet::new(), Vec::new());
        for cause in seen.causes() {
            explanation.lines.push(cause.message.clone());
            for affected_object in
                seen.affected_objects().iter().filter(|affected_object| affected_object.chain.root() == cause.message)
            {
                covered.insert(&affected_object.release);
                explanation.chains.push(affected_object.chain.clone());
                explanation.lines.extend(path(&affected_object.chain));
            }
            look.extend(cause.objects.iter().cloned());
        }
        explanation.waiting = !explanation.lines.is_empty();
        for (name, decision) in &preview.plan.decisions {
            if !covered.contains(&decision.key) {
                explanation.release_unless_ready(name, preview);
            }
        }
        explanation.look.splice(0..0, look);
        if !explanation.waiting {
            explanation.lines.push("everything is ready".into());
        }
        explanation
    }

    /// Explains one subject.
    pub fn of(subject: &Subject<'_>, preview: &Preview) -> Self {
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
    pub fn of_pod(namespace: &str, name: &str, chain: &Chain) -> Self {
        let mut explanation = Self::default();
        let pod = CauseObject { kind: "Pod".into(), namespace: namespace.into(), name: name.into() };
        explanation.chain(chain);
        explanation.lines.insert(0, format!("pod {name} belongs to {}", chain.links[0].object));
        explanation.look.insert(0, pod);
        explanation
    }

    /// Explains a pod that waits for nothing.
    pub fn of_quiet_pod(name: &str, phase: &str) -> Self {
        let how = if phase == "Succeeded" { "is completed" } else { "is ready, or does not belong to a release" };
        Self { lines: vec![format!("pod {name} {how} ({phase})")], ..Self::default() }
    }

    /// Whether everything requested is ready.
    pub fn is_ready(&self) -> bool {
        !self.waiting
    }

    /// Returns the lines.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    /// Returns the chains of the explanation.
    pub fn chains(&self) -> &[Chain] {
        &self.chains
    }

    /// Returns the objects to inspect, each once.
    pub fn look(&self) -> Vec<&CauseObject> {
        let mut look: Vec<&CauseObject> = Vec::new();
        for object in &self.look {
            if !look.contains(&object) {
                look.push(object);
            }
        }
        look
    }

    /// Returns the explanation as text.
    pub fn text(&self) -> String {
        let mut text = self.lines.join("\n") + "\n";
        let look = self.look();
        if !look.is_empty() {
            text.push_str("\nInspect:\n");
        }
        for object in look {
            let _ = writeln!(text, "  {}", command(object));
        }
        text
    }

    /// Explains a release that no cause covers, unless it is ready.
    fn release_unless_ready(&mut self, name: &str, preview: &Preview) {
        let ready = preview.plan.decisions.get(name).is_none_or(|decision| decision.step == Step::Ready);
        if !ready {
            self.release(name, preview);
        }
    }

    fn release(&mut self, name: &str, preview: &Preview) {
        let Some(decision) = preview.plan.decisions.get(name) else { return };
        let what = match &decision.step {
            Step::Ready => {
                self.lines.push(format!("release {name} is ready"));
                self.add_chains(preview, |affected_object| {
                    affected_object.release == decision.key && is_cron(affected_object)
                });
                return;
            }
            Step::Settling(lines) => lines.join("; "),
            Step::Wait(wait) => wait.to_string(),
            Step::Do(action, why) => format!("{action}: {why}"),
        };
        self.waiting = true;
        self.lines.push(format!("release {name} is not ready: {what}"));
        let ReleaseKey { namespace, name } = decision.key.clone();
        self.add_chains(preview, |affected_object| affected_object.release == decision.key);
        if let Step::Wait(Wait::Needs(components)) = &decision.step {
            for component in components {
                self.workloads(&component.to_string(), &of_component(preview, component), preview);
            }
        }
        self.look.push(CauseObject { kind: "Release".into(), namespace, name });
    }

    fn workloads(&mut self, name: &str, workloads: &[&Workload], preview: &Preview) {
        let verdict = match workloads.iter().find(|workload| preview.observed.is_scaled_to_zero(workload)) {
            Some(workload) => health::scaled_to_zero(workload),
            None => health::aggregate(workloads),
        };
        if verdict.status == ComponentHealth::Ready {
            return self.lines.push(format!("{name} is ready ({})", verdict.ready));
        }
        self.waiting = true;
        let objects: Vec<CauseObject> = workloads.iter().map(|workload| object(workload)).collect();
        let is_explained =
            self.add_chains(preview, |affected_object| objects.contains(&affected_object.chain.links[0].object));
        if !is_explained {
            let reason = if verdict.reason.is_empty() { String::new() } else { format!(": {}", verdict.reason) };
            self.lines.push(format!("{name} is {:?} ({}){reason}", verdict.status, verdict.ready));
            self.look.extend(objects);
        }
    }

    fn job(&mut self, job: &ObservedJob, preview: &Preview) {
        let why = match health::job_health(job) {
            JobHealth::Complete => return self.lines.push(format!("Job {} is complete", job.name)),
            JobHealth::Running(why) | JobHealth::Failing(why) | JobHealth::Failed(why) => why,
        };
        self.waiting = true;
        let own = CauseObject { kind: "Job".into(), namespace: job.namespace.clone(), name: job.name.clone() };
        if !self.add_chains(preview, |affected_object| affected_object.chain.links[0].object == own) {
            let why = if why.is_empty() { "it runs".to_owned() } else { why };
            self.lines.push(format!("Job {} is not complete: {why}", job.name));
            self.look.push(own);
        }
    }

    fn cron(&mut self, cron: &ObservedCronJob, preview: &Preview) {
        if !self.add_chains(preview, |affected_object| {
            is_cron(affected_object) && affected_object.chain.links[0].object.name == cron.name
        }) {
            let state = if cron.suspended { "is suspended" } else { "does not fail" };
            self.lines.push(format!("CronJob {} {state}", cron.name));
        }
    }

    /// Adds the chains of matching objects. Returns whether there were any.
    fn add_chains(&mut self, preview: &Preview, matches: impl Fn(&AffectedObject) -> bool) -> bool {
        let seen = preview.tasks.observe();
        let mut any = false;
        for affected_object in seen.affected_objects().iter().filter(|affected_object| matches(affected_object)) {
            self.chain(&affected_object.chain);
            any = true;
        }
        any
    }

    /// Adds one line per link, each caused by the next, and the objects from the root back.
    fn chain(&mut self, chain: &Chain) {
        self.waiting = true;
        self.chains.push(chain.clone());
        let last = chain.links.len() - 1;
        for (place, link) in chain.links.iter().enumerate() {
            let why = chain.why.as_ref().filter(|_| place == last).map(|why| format!(": {why}")).unwrap_or_default();
            let how = if place == 0 && last > 0 { " waits for" } else { "" };
            self.lines.push(format!("{}{}{how}{why}", if place == 0 { "" } else { "  ← " }, link.label));
        }
        self.look.extend(chain.inspect.iter().cloned());
        self.look.extend(chain.links.iter().rev().map(|link| link.object.clone()));
    }
}

fn is_cron(affected_object: &AffectedObject) -> bool {
    affected_object.chain.links[0].object.kind == cron::KIND
}

/// Returns the line of an affected object, such as `nova/compute waits for it, through neutron/ovs-agent`.
fn path(chain: &Chain) -> Option<String> {
    let [affected_object, between @ .., _] = chain.links.as_slice() else { return None };
    let through: Vec<_> = between.iter().map(|link| link.label.as_str()).collect();
    let through = if through.is_empty() { String::new() } else { format!(", through {}", through.join(" ← ")) };
    Some(format!("  {} waits for it{through}", affected_object.label))
}

fn object(workload: &Workload) -> CauseObject {
    let Workload { kind, namespace, name, .. } = workload;
    CauseObject { kind: format!("{kind:?}"), namespace: namespace.clone(), name: name.clone() }
}

/// Returns the command that shows an object.
pub fn command(object: &CauseObject) -> String {
    let CauseObject { kind, namespace, name } = object;
    match (kind.as_str(), namespace.as_str()) {
        ("Release", namespace) => format!("helm -n {namespace} status {name}"),
        (kind, "") => format!("kubectl describe {} {name}", kind.to_lowercase()),
        (kind, namespace) => format!("kubectl -n {namespace} describe {} {name}", kind.to_lowercase()),
    }
}
