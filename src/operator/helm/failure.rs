//! Classifies helm's error messages.
//!
//! helm's exit code is only 0 or 1, so osdpl searches the message for known phrases. The phrases are from provoked
//! failures of helm 3.22.0 and 4.3.1 with Kubernetes 1.36. If the release record describes a failure more precisely
//! than the message, osdpl uses the record.

use std::fmt;

mod words;

use words::{after, between, error_text};

pub(crate) use words::condense;

/// An object that an error message names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Subject {
    /// The object's kind, as in the message. helm writes kinds such as `Secret`; the API server writes plural names
    /// such as `secrets`.
    pub kind: String,
    /// The name of the object.
    pub name: String,
}

impl fmt::Display for Subject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.kind, self.name)
    }
}

/// The kind of failure that an error message of helm describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The newest record of the release is pending: another helm process is working on the release, or was killed
    /// during its work.
    Pending,
    /// helm cannot upgrade the release, because it has no deployed revision, and its newest record has a status from
    /// which helm cannot upgrade, such as `uninstalling`.
    NoDeployedReleases,
    /// The release to uninstall does not exist.
    ReleaseNotFound,
    /// helm refuses to take over an object that exists and belongs to another owner.
    NotOurs(Option<Subject>),
    /// The chart changes immutable fields of these objects, mostly of Jobs that are not hooks. Someone must delete the
    /// objects before the next upgrade.
    Immutable(Vec<Subject>),
    /// helm cannot apply an object, because another field manager owns some of its fields.
    Conflict(Option<Subject>),
    /// An object that helm wants to create exists already. This happens, for example, if an earlier install left a
    /// Secret, and helm applies objects client-side.
    AlreadyExists(Option<Subject>),
    /// The API server rejects an object: it is invalid, over quota, or denied by a webhook.
    Invalid(Option<Subject>),
    /// The operator lacks the permission that this string names, such as `get resource "configmaps" in API group ""`.
    Forbidden(String),
    /// The release record, or another object of the release, is larger than the API server accepts.
    TooLarge,
    /// The namespace of the release does not exist.
    NamespaceMissing,
    /// The namespace of the release is being deleted, so the API server creates no objects in it.
    NamespaceTerminating,
    /// A hook or the deletion of an object exceeded the timeout. The message of helm 3 does not name the hook, but the
    /// release record does.
    TimedOut(Option<Subject>),
    /// A hook (a Job or a pod) has failed for good: Kubernetes does not retry it.
    HookFailed(Option<Subject>),
    /// The API server does not respond, or its certificate is not trusted.
    Unreachable,
    /// The API server does not know the kind of an object in the chart, because a CRD is missing.
    KindUnknown,
    /// The chart's archive is missing or damaged.
    ChartUnreadable,
    /// helm cannot render the chart with the values of the release.
    Unrenderable,
    /// A signal that the operator did not send stopped helm.
    Cancelled,
    /// Any other failure.
    Other,
}

/// The phrases of helm's messages for one kind of failure, and the function that makes the `Failure` from such a
/// message.
type Rule = (&'static [&'static str], fn(&str) -> Failure);

/// The rules for classifying a message. A rule matches if the message contains one of its phrases. The first rule that
/// matches applies.
///
/// The order matters: helm's message may quote an object, and the quoted text may contain a phrase of another rule. The
/// rule for the actual failure must come before that other rule.
const RULES: [Rule; 19] = [
    (&["another operation (install/upgrade/rollback) is in progress"], |_| Failure::Pending),
    (&["has no deployed releases"], |_| Failure::NoDeployedReleases),
    (&["release: not found"], |_| Failure::ReleaseNotFound),
    (&["ubernetes cluster unreachable"], |_| Failure::Unreachable),
    (TOO_LARGE, |_| Failure::TooLarge),
    (LOST, |_| Failure::Unreachable),
    (&["cannot be imported into the current release"], |text| Failure::NotOurs(subject(text))),
    (&["because it is being terminated"], |_| Failure::NamespaceTerminating),
    (IMMUTABLE, |text| Failure::Immutable(immutable(text))),
    (&["conflict occurred while applying object", "Apply failed with "], |text| Failure::Conflict(subject(text))),
    (&["is forbidden: User "], |text| Failure::Forbidden(between(text, " cannot ", " in the namespace").to_owned())),
    (&[" already exists"], |text| Failure::AlreadyExists(subject(text))),
    (&["no matches for kind "], |_| Failure::KindUnknown),
    (&["failed: BackoffLimitExceeded", "failed: DeadlineExceeded", "status: Failed, message: "], |text| {
        Failure::HookFailed(hook(text))
    }),
    (&["timed out waiting for the condition", "context deadline exceeded", "still exists. status: "], |text| {
        Failure::TimedOut(hook(text))
    }),
    (REFUSED, |text| Failure::Invalid(subject(text))),
    (CHART, |_| Failure::ChartUnreadable),
    (RENDER, |_| Failure::Unrenderable),
    (&["context canceled"], |_| Failure::Cancelled),
];

/// The API server's phrases for a changed immutable field. The first phrase is for Jobs and for the pod selectors of
/// workloads, the second one for a StatefulSet, and the third one for a PersistentVolumeClaim.
const IMMUTABLE: &[&str] = &["field is immutable", "Forbidden: updates to ", "is immutable after creation"];

/// The phrases for an object that is too large. In this order, they come from the API server (about a Secret), from
/// etcd, from the API server's etcd client, and from the API server (about a request).
const TOO_LARGE: &[&str] = &[
    "\" is invalid: data: Too long: ",
    "etcdserver: request is too large",
    "trying to send message larger than max",
    "Request entity too large: ",
];

/// The phrases for an API server that helm can't reach, or that can't answer.
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

/// Returns the kind of failure that helm's stderr describes. The caller has removed secrets from the text.
pub(crate) fn classify(text: &str) -> Failure {
    let text = error_text(text);
    if let Some((_, failure)) = RULES.iter().find(|(phrases, _)| phrases.iter().any(|phrase| text.contains(phrase))) {
        return failure(&text);
    }
    match (text.contains("namespaces \"") && text.contains("\" not found"), missing_chart(&text)) {
        (true, _) => Failure::NamespaceMissing,
        (_, true) => Failure::ChartUnreadable,
        (false, false) => Failure::Other,
    }
}

fn missing_chart(text: &str) -> bool {
    text.contains("path \"") && text.contains("\" not found")
}

/// Returns the objects whose immutable fields the chart changes, according to helm's message. If there are several
/// objects, helm joins their errors by ` && `.
fn immutable(text: &str) -> Vec<Subject> {
    let parts = text.split(" && ").filter(|part| IMMUTABLE.iter().any(|phrase| part.contains(phrase)));
    parts.filter_map(subject).collect()
}

/// Returns the first object that helm's message names, in any of helm's formats.
fn subject(text: &str) -> Option<Subject> {
    let named = |kind: &str, name: &str| {
        let is_word = |text: &str| !text.is_empty() && !text.contains(char::is_whitespace);
        (is_word(kind) && is_word(name)).then(|| Subject { kind: kind.to_owned(), name: name.to_owned() })
    };
    // The message contains: cannot patch "NAME" with kind KIND: …
    if let Some(rest) = after(text, "cannot patch \"") {
        return named(between(rest, "with kind ", ":"), between(rest, "", "\""));
    }
    // The message contains: … for object NAMESPACE/NAME GROUP/VERSION, Kind=KIND: …
    if let Some(rest) = after(text, "object ").filter(|rest| rest.contains(", Kind=")) {
        let name = between(rest, "", " ").rsplit('/').next().unwrap_or_default();
        return named(between(rest, ", Kind=", ":"), name);
    }
    // The message contains one of: KIND "NAME" in namespace …; KIND.GROUP "NAME" is invalid: …; RESOURCES "NAME"
    // already exists
    let phrases = ["\" in namespace ", "\" is invalid: ", "\" already exists"];
    let position = phrases.iter().filter_map(|phrase| text.find(phrase)).min()?;
    let (before, name) = text[..position].rsplit_once('"')?;
    let kind = before.trim_end().rsplit(char::is_whitespace).next().unwrap_or_default();
    named(kind.split('.').next().unwrap_or_default(), name)
}

/// Returns the hook that helm's message names.
fn hook(text: &str) -> Option<Subject> {
    // helm 4 writes: resource KIND/NAMESPACE/NAME not ready. status: …
    if let Some(rest) = after(text, "resource ") {
        let mut parts = between(rest, "", " ").splitn(3, '/');
        return match (parts.next(), parts.next(), parts.next()) {
            (Some(kind), Some(_), Some(name)) => Some(Subject { kind: kind.to_owned(), name: name.to_owned() }),
            (_, _, _) => None,
        };
    }
    // helm 3 writes: job NAME failed: …
    let name = between(after(text, "job ")?, "", " ");
    (!name.is_empty()).then(|| Subject { kind: "Job".to_owned(), name: name.to_owned() })
}

#[cfg(test)]
mod tests;
