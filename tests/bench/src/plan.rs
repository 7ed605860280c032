//! Measures how long the computation of a reconcile pass takes: loading the catalogue, and selecting, resolving and
//! planning a spec. Measures three clouds: one with 60 releases, one with 1 000 releases, and the sample.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use k8s_openapi::jiff::Timestamp;
use osdpl_core::api::{OpenStackDeployment, OpenStackDeploymentSpec};
use osdpl_core::catalog::{Catalog, Files};
use osdpl_core::ceph::{self, DeclaredCeph};
use osdpl_core::credentials;
use osdpl_core::desired::{Facts, resolve, select};
use osdpl_core::files;
use osdpl_core::observed::Observed;
use osdpl_core::plan::{Policy, plan};
use osdpl_values::yaml;

const FEW: usize = 60;
const MANY: usize = 1000;
const ROUNDS: usize = 9;
const GOAL: Duration = Duration::from_millis(5);

/// The duration of each step of one reconcile pass.
#[derive(Clone, Copy, Default)]
struct Times {
    load: Duration,
    select: Duration,
    resolve: Duration,
    plan: Duration,
}

/// Measures how long osdpl takes to compute a reconcile pass for three clouds: one with few releases, one with many,
/// and the sample. Prints the medians.
///
/// Each round measures all three clouds, so that a change of the machine's speed affects all of them.
pub fn measure(sample: &Path) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(sample).with_context(|| format!("reading {}", sample.display()))?;
    let deployment: OpenStackDeployment = yaml::parse(&sample.display().to_string(), &text)?;
    let all: OpenStackDeploymentSpec = yaml::parse("the spec", "{openstackRelease: '2026.1', presets: [all]}")?;
    let few = (synthetic(FEW), all.clone());
    let many = (synthetic(MANY), all);
    let sample_cloud = (files::built_in(), deployment.spec);
    let mut times: [Vec<Times>; 3] = Default::default();
    for _ in 0..ROUNDS {
        for (measured, (files, spec)) in times.iter_mut().zip([&few, &many, &sample_cloud]) {
            measured.push(pass(files, spec)?);
        }
    }
    let [few, many, sample_times] = times.map(|times| median_times(&times));
    println!(
        "medians of {ROUNDS}, ms       {FEW} releases  {MANY:>5} releases  ratio by release  {}",
        sample.display()
    );
    let row = |name: &str, part: fn(&Times) -> Duration| {
        let ms = |times: &Times| part(times).as_secs_f64() * 1e3;
        let ratio = ms(&many) * as_f64(FEW) / (ms(&few) * as_f64(MANY));
        println!("{name:<18} {:>17.2}  {:>14.2}  {ratio:>16.2}  {:>8.2}", ms(&few), ms(&many), ms(&sample_times));
    };
    row("load", |times| times.load);
    row("select", |times| times.select);
    row("resolve", |times| times.resolve);
    row("plan", |times| times.plan);
    row("resolve + plan", |times| times.resolve + times.plan);
    let duration = few.resolve + few.plan;
    println!("goal: resolve + plan of {FEW} releases in {} ms or less: {}", GOAL.as_millis(), mark(duration <= GOAL));
    Ok(())
}

/// Returns the mark that shows whether a goal is met.
pub fn mark(is_met: bool) -> char {
    if is_met { '✔' } else { '✘' }
}

fn as_f64(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}

fn median_times(times: &[Times]) -> Times {
    let median_of = |part: fn(&Times) -> Duration| median(times.iter().map(part).collect());
    Times {
        load: median_of(|times| times.load),
        select: median_of(|times| times.select),
        resolve: median_of(|times| times.resolve),
        plan: median_of(|times| times.plan),
    }
}

/// Returns the median of the durations; zero if there are none.
pub fn median(mut durations: Vec<Duration>) -> Duration {
    durations.sort_unstable();
    durations.get(durations.len() / 2).copied().unwrap_or_default()
}

/// Computes one reconcile pass and measures its steps. Resolves the spec once before the measurement, because the first
/// resolution of a spec also initializes data that later resolutions reuse.
fn pass(files: &Files, spec: &OpenStackDeploymentSpec) -> anyhow::Result<Times> {
    let (catalog, load) = timed(|| Catalog::load(files));
    let catalog = catalog?;
    let ceph = DeclaredCeph::of(Ok(ceph::example())).with_gateway(Some(Ok(ceph::example_gateway())));
    let mut facts = Facts { helm_major: 4, ceph: Some(ceph), ..Facts::default() };
    let selection = select("cloud", "openstack", spec, &catalog);
    if selection.is_refused() {
        bail!("the resource is refused: {:?}", selection.findings);
    }
    for (service, name) in credentials::list_needed_credentials(&catalog, &selection).into_keys() {
        let value = format!("the-{service}-{name}");
        facts.credentials.entry(service).or_default().insert(name, value);
    }
    drop(resolve(spec, &catalog, &selection, &facts));
    let (selection, select) = timed(|| select("cloud", "openstack", spec, &catalog));
    let (desired, resolve) = timed(|| resolve(spec, &catalog, &selection, &facts));
    let (observed, policy, now) = (Observed::default(), Policy::default(), Timestamp::now());
    let (_, plan) = timed(|| plan(&desired, &observed, &catalog, &policy, now));
    Ok(Times { load, select, resolve, plan })
}

/// Calls a function, and returns its result and how long the call took.
pub fn timed<T>(run: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = run();
    (result, start.elapsed())
}

/// Returns the files of a catalogue with `count` services, each with one release. A release needs two other releases
/// and has about as many values as a release of an OpenStack service.
fn synthetic(count: usize) -> Files {
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    for index in 0..count {
        let mut text = format!(
            "service: s{index}\ndescription: A test service.\ngroup: openstack\ncredentials: {{user: {{}}}}\nreleases:\n  s{index}:\n"
        );
        if index > 1 {
            text += "    needs: [{component: s0/api}, {component: s1/api}]\n";
        }
        let _ = writeln!(text, "    components: {{s{index}/api: Deployment}}\n    values:");
        text += "      endpoints:\n";
        for other in 0..10 {
            let _ =
                writeln!(text, "        e{other}: {{namespace: \"${{releases.s{}.namespace}}\", port: 80}}", other % 3);
        }
        let _ = writeln!(text, "      auth: {{password: \"${{credentials.s{index}.user}}\"}}");
        text += "      conf:\n";
        for section in 0..20 {
            let _ = writeln!(text, "        section{section}: {{one: 1, two: two, three: [a, b, c], four: true}}");
        }
        files.insert(format!("values/services/s{index}.yaml"), text);
        let keys =
            "auth: {password: string, admin: string}\npod: {replicas: {api: number}}\nconf: map\nendpoints: map\n";
        files.insert(format!("values/keys/s{index}.yaml"), keys.to_owned());
    }
    for index in 0..20 {
        let text = format!(
            "feature: f{index}\ndescription: A test feature.\nschema: {{type: object, properties: {{enabled: {{type: boolean}}}}}}\ndefault: {{enabled: false}}\n\
             fragments:\n- when: features.f{index}.enabled\n  releases: {{s{index}: {{values: {{conf: {{f{index}: true}}}}}}}}\n"
        );
        files.insert(format!("values/features/f{index}.yaml"), text);
    }
    let shared = "shared: all\ndescription: Of all.\nfragments:\n- every: {values: {auth: {admin: \"${credentials.s0.user}\"}}}\n\
                  - when: spec.region == 'RegionOne'\n  every: {values: {pod: {replicas: {api: 3}}}}\n";
    files.insert("values/shared/all.yaml".to_owned(), shared.to_owned());
    let openstack = "openstackRelease: '2026.1'\ndescription: One.\n";
    files.insert("values/openstack/2026.1.yaml".to_owned(), openstack.to_owned());
    let names = (0..count).map(|index| format!("s{index}")).collect::<Vec<_>>().join(", ");
    files.insert("presets/all.yaml".to_owned(), format!("preset: all\ndescription: All.\nservices: [{names}]\n"));
    files.into_iter().map(|(path, text)| (path, text.into())).collect()
}
