//! What helm's last words mean.
//!
//! helm's exit code is 0 or 1, so its words must do. The texts are those of helm 3.22.0 and 4.3.1 against Kubernetes 1.36,
//! collected by making each failure happen; the release record is asked first wherever it knows better.

use std::fmt;

mod words;

use words::{after, between, essence};

pub use words::condense;

/// An object that helm complained about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subject {
    /// Its kind, as helm spells it: `Job`, or `secrets` where it quotes the API server.
    pub kind: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for Subject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.kind, self.name)
    }
}

/// Why helm failed, as far as its words tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The newest record is pending: another helm runs, or died.
    Pending,
    /// The newest record is no base for an upgrade, as one that is `uninstalling`.
    NoDeployedReleases,
    /// There is no such release to uninstall.
    ReleaseNotFound,
    /// An object exists and belongs to something else.
    NotOurs(Option<Subject>),
    /// Objects must be deleted before they can become what the chart says: plain Jobs above all.
    Immutable(Vec<Subject>),
    /// Another manager owns fields of an object.
    Conflict(Option<Subject>),
    /// An object is in the way, as key Secrets of an earlier install are for a client-side apply.
    AlreadyExists(Option<Subject>),
    /// The API server refuses an object: invalid, over quota, denied by a webhook.
    Invalid(Option<Subject>),
    /// We lack a permission; the text says which: `get resource "configmaps" in API group ""`.
    Forbidden(String),
    /// The namespace does not exist.
    NamespaceMissing,
    /// The namespace is being deleted; nothing can be created in it any more.
    NamespaceTerminating,
    /// A hook, or an object's end, took longer than the timeout; helm 3 does not say which, the record does.
    TimedOut(Option<Subject>),
    /// A hook failed for good.
    HookFailed(Option<Subject>),
    /// The API server does not answer, or not as the one we trust.
    Unreachable,
    /// The API server does not know a kind: a CRD is missing.
    KindUnknown,
    /// The chart's archive is missing or damaged.
    ChartUnreadable,
    /// The chart cannot be rendered with these values.
    Unrenderable,
    /// helm was told to stop by someone else.
    Cancelled,
    /// None of the others.
    Other,
}

impl Failure {
    /// One stable word, for metrics and events.
    pub fn category(&self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::NoDeployedReleases => "NoDeployedReleases",
            Self::ReleaseNotFound => "ReleaseNotFound",
            Self::NotOurs(_) => "NotOurs",
            Self::Immutable(_) => "Immutable",
            Self::Conflict(_) => "Conflict",
            Self::AlreadyExists(_) => "AlreadyExists",
            Self::Invalid(_) => "Invalid",
            Self::Forbidden(_) => "Forbidden",
            Self::NamespaceMissing => "NamespaceMissing",
            Self::NamespaceTerminating => "NamespaceTerminating",
            Self::TimedOut(_) => "TimedOut",
            Self::HookFailed(_) => "HookFailed",
            Self::Unreachable => "Unreachable",
            Self::KindUnknown => "KindUnknown",
            Self::ChartUnreadable => "ChartUnreadable",
            Self::Unrenderable => "Unrenderable",
            Self::Cancelled => "Cancelled",
            Self::Other => "Other",
        }
    }
}

/// A phrase and what it means, given the whole text.
type Rule = (&'static [&'static str], fn(&str) -> Failure);

/// In this order: an object's own text may hold a later rule's phrase, never an earlier one's.
const RULES: [Rule; 18] = [
    (&["another operation (install/upgrade/rollback) is in progress"], |_| Failure::Pending),
    (&["has no deployed releases"], |_| Failure::NoDeployedReleases),
    (&["release: not found"], |_| Failure::ReleaseNotFound),
    (&["ubernetes cluster unreachable"], |_| Failure::Unreachable),
    (LOST, |_| Failure::Unreachable),
    (&["cannot be imported into the current release"], |said| Failure::NotOurs(subject(said))),
    (&["because it is being terminated"], |_| Failure::NamespaceTerminating),
    (IMMUTABLE, |said| Failure::Immutable(immutable(said))),
    (&["conflict occurred while applying object", "Apply failed with "], |said| Failure::Conflict(subject(said))),
    (&["is forbidden: User "], |said| Failure::Forbidden(between(said, " cannot ", " in the namespace").to_owned())),
    (&[" already exists"], |said| Failure::AlreadyExists(subject(said))),
    (&["no matches for kind "], |_| Failure::KindUnknown),
    (&["failed: BackoffLimitExceeded", "failed: DeadlineExceeded", "status: Failed, message: "], |said| {
        Failure::HookFailed(hook(said))
    }),
    (&["timed out waiting for the condition", "context deadline exceeded", "still exists. status: "], |said| {
        Failure::TimedOut(hook(said))
    }),
    (REFUSED, |said| Failure::Invalid(subject(said))),
    (CHART, |_| Failure::ChartUnreadable),
    (RENDER, |_| Failure::Unrenderable),
    (&["context canceled"], |_| Failure::Cancelled),
];

/// Jobs and selectors; stateful sets; claims. The API server has three ways to say the same.
const IMMUTABLE: &[&str] = &["field is immutable", "Forbidden: updates to ", "is immutable after creation"];

/// The API server went away while helm worked.
const LOST: &[&str] = &[
    "connect: connection refused",
    "connection reset by peer",
    "http2: client connection lost",
    "i/o timeout",
    "TLS handshake timeout",
    "etcdserver: ",
    "no such host",
    "the server is currently unable to handle the request",
];

const REFUSED: &[&str] =
    &["\" is invalid: ", "field not declared in schema", "denied the request", "exceeded quota", "unable to decode \""];

const CHART: &[&str] = &[
    "does not appear to be a gzipped archive",
    "unable to load chart archive",
    "Chart.yaml file is missing",
    "missing in charts/ directory",
    "Error: unexpected EOF",
    "gzip: invalid header",
];

const RENDER: &[&str] = &[
    "execution error at (",
    "template: ",
    "executing \"",
    "YAML parse error on ",
    "meet the specifications of the schema(s)",
    "failed to parse -",
];

/// What `said` means: helm's stderr, secrets taken out of it.
pub fn classify(said: &str) -> Failure {
    let said = essence(said);
    if let Some((_, meaning)) = RULES.iter().find(|(phrases, _)| phrases.iter().any(|phrase| said.contains(phrase))) {
        return meaning(&said);
    }
    match (said.contains("namespaces \"") && said.contains("\" not found"), missing_chart(&said)) {
        (true, _) => Failure::NamespaceMissing,
        (_, true) => Failure::ChartUnreadable,
        (false, false) => Failure::Other,
    }
}

fn missing_chart(said: &str) -> bool {
    said.contains("path \"") && said.contains("\" not found")
}

/// helm joins what went wrong with several objects by ` && `.
fn immutable(said: &str) -> Vec<Subject> {
    let parts = said.split(" && ").filter(|part| IMMUTABLE.iter().any(|phrase| part.contains(phrase)));
    parts.filter_map(subject).collect()
}

/// The first object that a text names, in helm's ways of naming one.
fn subject(said: &str) -> Option<Subject> {
    let named = |kind: &str, name: &str| {
        let plain = |text: &str| !text.is_empty() && !text.contains(char::is_whitespace);
        (plain(kind) && plain(name)).then(|| Subject { kind: kind.to_owned(), name: name.to_owned() })
    };
    // cannot patch "NAME" with kind KIND: …
    if let Some(rest) = after(said, "cannot patch \"") {
        return named(between(rest, "with kind ", ":"), between(rest, "", "\""));
    }
    // … for object NAMESPACE/NAME GROUP/VERSION, Kind=KIND: …
    if let Some(rest) = after(said, "object ").filter(|rest| rest.contains(", Kind=")) {
        let name = between(rest, "", " ").rsplit('/').next().unwrap_or_default();
        return named(between(rest, ", Kind=", ":"), name);
    }
    // KIND "NAME" in namespace …; KIND.GROUP "NAME" is invalid: …; RESOURCES "NAME" already exists
    let phrases = ["\" in namespace ", "\" is invalid: ", "\" already exists"];
    let place = phrases.iter().filter_map(|phrase| said.find(phrase)).min()?;
    let (before, name) = said[..place].rsplit_once('"')?;
    let kind = before.trim_end().rsplit(char::is_whitespace).next().unwrap_or_default();
    named(kind.split('.').next().unwrap_or_default(), name)
}

/// The hook that a text names.
fn hook(said: &str) -> Option<Subject> {
    // helm 4: resource KIND/NAMESPACE/NAME not ready. status: …
    if let Some(rest) = after(said, "resource ") {
        let mut parts = between(rest, "", " ").splitn(3, '/');
        return match (parts.next(), parts.next(), parts.next()) {
            (Some(kind), Some(_), Some(name)) => Some(Subject { kind: kind.to_owned(), name: name.to_owned() }),
            (_, _, _) => None,
        };
    }
    // helm 3: job NAME failed: …
    let name = between(after(said, "job ")?, "", " ");
    (!name.is_empty()).then(|| Subject { kind: "Job".to_owned(), name: name.to_owned() })
}

#[cfg(test)]
mod tests;
