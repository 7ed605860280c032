//! Finds what a name on the command line of `osdpl why` stands for: a service, release, component, workload, Job or
//! `CronJob`.

use std::collections::BTreeSet;

use osdpl_core::catalog::{Catalog, Component};
use osdpl_core::observed::{ObservedCronJob, ObservedJob, Workload};
use osdpl_operator::controller::Preview;
use osdpl_values::CollectSorted;

/// The objects that the name on the command line of `osdpl why` stands for.
pub(crate) enum Subject<'a> {
    /// Releases, by their names in the catalogue: one release, or all releases of a service.
    Releases(Vec<&'a str>),
    /// The workloads that have the name that the user gave, or whose component has this name. The string is this name.
    Workloads(String, Vec<&'a Workload>),
    /// The Job with the name that the user gave.
    Job(&'a ObservedJob),
    /// The `CronJob` with the name or component that the user gave.
    Cron(&'a ObservedCronJob),
}

/// The cloud in which `osdpl why` looks up the name that the user gave.
pub(crate) struct Names<'a> {
    catalog: &'a Catalog,
    preview: &'a Preview,
}

impl<'a> Names<'a> {
    pub(crate) fn new(catalog: &'a Catalog, preview: &'a Preview) -> Self {
        Self { catalog, preview }
    }

    /// Finds what `name` stands for. Tries services first, then releases, components, workloads, Jobs and `CronJobs`.
    pub(crate) fn find(&self, name: &str) -> Option<Subject<'a>> {
        let releases: Vec<&str> = self.releases().filter(|release| self.service(release) == Some(name)).collect();
        if !releases.is_empty() {
            return Some(Subject::Releases(releases));
        }
        if let Some(release) = self.releases().find(|release| *release == name) {
            return Some(Subject::Releases(vec![release]));
        }
        let workloads = |matches: &dyn Fn(&Workload) -> bool| -> Vec<&'a Workload> {
            self.workloads().filter(|workload| matches(workload)).collect()
        };
        let by_component = workloads(&|workload| workload.component.to_string() == name);
        let by_name = workloads(&|workload| workload.name == name);
        if let Some(found) = [by_component, by_name].into_iter().find(|found| !found.is_empty()) {
            return Some(Subject::Workloads(name.to_owned(), found));
        }
        let job = || self.jobs().find(|job| job.name == name).map(Subject::Job);
        let is_requested = |cron: &&ObservedCronJob| cron.name == name || cron.component.to_string() == name;
        job().or_else(|| self.crons().find(is_requested).map(Subject::Cron))
    }

    /// Returns every name that [`Self::find`] accepts.
    pub(crate) fn all(&self) -> Vec<String> {
        let releases = self.releases().flat_map(|name| [Some(name), self.service(name)]).flatten().map(str::to_owned);
        let workloads = self.workloads().flat_map(|workload| [workload.component.to_string(), workload.name.clone()]);
        let crons = self.crons().flat_map(|cron| [cron.component.to_string(), cron.name.clone()]);
        let jobs = self.jobs().map(|job| job.name.clone());
        let all: BTreeSet<String> = releases.chain(workloads).chain(jobs).chain(crons).collect_set();
        all.into_iter().collect()
    }

    /// Returns the namespaces of the cloud's releases.
    pub(crate) fn namespaces(&self) -> BTreeSet<&'a str> {
        self.preview.plan.decisions.values().map(|decision| decision.key.namespace.as_str()).collect_set()
    }

    fn releases(&self) -> impl Iterator<Item = &'a str> {
        self.preview.plan.decisions.keys().map(String::as_str)
    }

    fn service(&self, release: &str) -> Option<&'a str> {
        self.catalog.release(release).map(|(service, _)| service)
    }

    fn workloads(&self) -> impl Iterator<Item = &'a Workload> {
        let is_ours = |workload: &&Workload| self.is_ours(&workload.namespace, &workload.release);
        self.preview.observed.workloads.iter().filter(is_ours)
    }

    fn jobs(&self) -> impl Iterator<Item = &'a ObservedJob> {
        self.preview.observed.jobs.iter().filter(|job| self.is_ours(&job.namespace, &job.release))
    }

    fn crons(&self) -> impl Iterator<Item = &'a ObservedCronJob> {
        self.preview.observed.crons.iter().filter(|cron| self.is_ours(&cron.namespace, &cron.release))
    }

    fn is_ours(&self, namespace: &str, release: &str) -> bool {
        let decisions = &self.preview.plan.decisions;
        decisions.values().any(|decision| decision.key.namespace == namespace && decision.key.name == release)
    }
}

/// Returns all workloads of a component. They may belong to different releases.
pub(crate) fn workloads_of_component<'a>(preview: &'a Preview, component: &Component) -> Vec<&'a Workload> {
    preview.observed.workloads.iter().filter(|workload| workload.component == *component).collect()
}
