//! Enables and reads the API server's audit log, which [`crate::Options::audit`] requests.

use std::path::Path;

use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;

use crate::Error;
use crate::folder::Folder;
use crate::options::Audit;

/// The text that precedes the response time in a line of the audit log.
const RESPONSE_TIME: &str = "\"stageTimestamp\":\"";

/// One request to which the API server has responded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// The verb: `create`, `update`, `patch`, `delete` or `deletecollection`; for Secrets also `get`, `list` and
    /// `watch`, if [`Audit::secret_reads`] is set.
    pub verb: String,
    /// The user who sent the request, such as `system:serviceaccount:osdpl:osdpl`; empty if the API server could not
    /// authenticate the request.
    pub user: String,
    /// The name and version of the client program, as in `kubectl/v1.36.0`.
    pub user_agent: String,
    /// The API group of the resource; empty for the core group.
    pub group: String,
    /// The plural name of the resource, such as `secrets`; empty for requests without a resource.
    pub resource: String,
    /// The subresource, such as `status`; empty if there is none.
    pub subresource: String,
    /// The namespace of the object; empty for cluster-scoped objects.
    pub namespace: String,
    /// The name of the object; empty if the API server generated the name or the request affects several objects.
    pub name: String,
    /// The HTTP status code of the response.
    pub code: u16,
    /// The time at which the API server received the request.
    pub received: Timestamp,
    /// The time at which the API server responded.
    pub answered: Timestamp,
}

impl AuditEntry {
    /// Whether the request is a write.
    pub fn is_write(&self) -> bool {
        matches!(self.verb.as_str(), "create" | "update" | "patch" | "delete" | "deletecollection")
    }
}

/// Reads the requests that arrived at `since` or later, in the order of their arrival. Ignores an incomplete last line.
pub fn read(path: &Path, since: Timestamp) -> Result<Vec<AuditEntry>, Error> {
    let text = std::fs::read_to_string(path).map_err(Error::file("read", path))?;
    let mut entries = parse(&text, since).map_err(|reason| Error::Malformed { path: path.into(), reason })?;
    entries.retain(|entry| entry.received >= since);
    entries.sort_by_key(|entry| entry.received);
    Ok(entries)
}

fn parse(text: &str, since: Timestamp) -> Result<Vec<AuditEntry>, String> {
    // Format `since` with six decimals, as the API server writes times. Strings in this format have the same order as
    // the times, so the comparison below need not parse the times.
    let since = format!("{since:.6}");
    let complete = text.rsplit_once('\n').map_or("", |(lines, _)| lines);
    let mut entries = Vec::new();
    for (index, line) in complete.lines().enumerate() {
        // Tests read the same growing log many times. So do not parse the JSON of lines that are older than `since`.
        if line.split_once(RESPONSE_TIME).is_some_and(|(_, time)| time.split('"').next() < Some(since.as_str())) {
            continue;
        }
        let raw: Raw = serde_json::from_str(line).map_err(|error| format!("line {}: {error}", index + 1))?;
        if raw.stage == "ResponseComplete" {
            entries.push(raw.into());
        }
    }
    Ok(entries)
}

/// A line of the audit log: the fields of an `audit.k8s.io/v1` Event that an [`AuditEntry`] needs.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw {
    stage: String,
    verb: String,
    user: RawUser,
    #[serde(default)]
    user_agent: String,
    #[serde(default)]
    object_ref: RawObject,
    #[serde(default)]
    response_status: RawStatus,
    request_received_timestamp: Timestamp,
    stage_timestamp: Timestamp,
}

/// The user who sent a request. The name is missing if the API server has not authenticated the request, for example
/// because the client disconnected.
#[derive(Deserialize)]
struct RawUser {
    #[serde(default)]
    username: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawObject {
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
    api_group: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawStatus {
    code: u16,
}

impl From<Raw> for AuditEntry {
    fn from(raw: Raw) -> Self {
        Self {
            verb: raw.verb,
            user: raw.user.username,
            user_agent: raw.user_agent,
            group: raw.object_ref.api_group,
            resource: raw.object_ref.resource,
            subresource: raw.object_ref.subresource,
            namespace: raw.object_ref.namespace,
            name: raw.object_ref.name,
            code: raw.response_status.code,
            received: raw.request_received_timestamp,
            answered: raw.stage_timestamp,
        }
    }
}

/// Writes the audit policy, which makes the API server log only the metadata of requests, because request bodies
/// contain Secrets.
pub(crate) fn write_policy(folder: &Folder, audit: Audit) -> Result<(), Error> {
    let mut rules = vec![json!({
        "level": "Metadata",
        "verbs": ["create", "update", "patch", "delete", "deletecollection"],
    })];
    if audit.secret_reads {
        rules.push(json!({
            "level": "Metadata",
            "verbs": ["get", "list", "watch"],
            "resources": [{ "group": "", "resources": ["secrets"] }],
        }));
    }
    rules.push(json!({ "level": "None" }));
    let policy = json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": rules,
    });
    let path = folder.audit_policy();
    std::fs::write(&path, format!("{policy:#}\n")).map_err(Error::file("write", &path))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"a","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/openstack/secrets/x","verb":"delete","user":{"username":"admin","groups":["system:masters"]},"userAgent":"kubectl/v1","objectRef":{"resource":"secrets","namespace":"openstack","name":"x","apiVersion":"v1"},"responseStatus":{"metadata":{},"code":200},"requestReceivedTimestamp":"2026-11-21T00:00:00.000001Z","stageTimestamp":"2026-11-21T00:00:00.250000Z"}"#;

    #[test]
    fn entry_has_user_verb_object_and_time() {
        let entries = parse(&format!("{LINE}\n"), Timestamp::UNIX_EPOCH).unwrap();
        let [entry] = entries.as_slice() else { panic!("{entries:?}") };
        assert_eq!((entry.verb.as_str(), entry.user.as_str(), entry.code), ("delete", "admin", 200));
        assert_eq!(
            (entry.namespace.as_str(), entry.resource.as_str(), entry.name.as_str()),
            ("openstack", "secrets", "x")
        );
        assert!(entry.received < entry.answered && entry.is_write());
    }

    #[test]
    fn ignores_an_incomplete_line() {
        assert_eq!(parse(&format!("{LINE}\n{}", &LINE[..40]), Timestamp::UNIX_EPOCH).unwrap().len(), 1);
    }

    #[test]
    fn ignores_requests_without_a_response() {
        let started = LINE.replace("ResponseComplete", "ResponseStarted");
        assert!(parse(&format!("{started}\n"), Timestamp::UNIX_EPOCH).unwrap().is_empty());
    }

    #[test]
    fn filters_by_response_time() {
        let since = |text: &str| parse(&format!("{LINE}\n"), text.parse().unwrap()).unwrap().len();
        assert_eq!(since("2026-11-21T00:00:00.25Z"), 1);
        assert_eq!(since("2026-11-21T00:00:00.250001Z"), 0);
    }

    #[test]
    fn names_the_number_of_an_invalid_line() {
        let error = parse(&format!("{LINE}\nnonsense\n"), Timestamp::UNIX_EPOCH).unwrap_err();
        assert!(error.starts_with("line 2: "), "{error}");
    }
}
