//! The API server's audit log: switched on by [`crate::Options::audit`], read back as entries.

use std::path::Path;

use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;

use crate::Error;
use crate::folder::Folder;
use crate::options::Audit;

/// What stands before the time of the answer.
const ANSWERED: &str = "\"stageTimestamp\":\"";

/// One answered request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// `create`, `update`, `patch`, `delete`, `deletecollection`; for Secrets also reads, when asked for.
    pub verb: String,
    /// Who asked, such as `system:serviceaccount:osdpl:osdpl`.
    pub user: String,
    /// The client program's own name.
    pub user_agent: String,
    /// API group, empty for the core group.
    pub group: String,
    /// Plural resource, such as `secrets`; empty for requests that concern none.
    pub resource: String,
    /// Such as `status`; else empty.
    pub subresource: String,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// Object name; empty where the server made it up or the request concerns many.
    pub name: String,
    /// HTTP status code of the answer.
    pub code: u16,
    /// When the server received the request.
    pub received: Timestamp,
    /// When it had answered.
    pub answered: Timestamp,
}

impl AuditEntry {
    /// Whether the request was meant to change something.
    pub fn is_write(&self) -> bool {
        matches!(self.verb.as_str(), "create" | "update" | "patch" | "delete" | "deletecollection")
    }
}

/// Reads what an audit log has since `since`, oldest first by the time of arrival. A last line still being written is left out.
pub fn read(path: &Path, since: Timestamp) -> Result<Vec<AuditEntry>, Error> {
    let text = std::fs::read_to_string(path).map_err(Error::file("read", path))?;
    let mut entries = parse(&text, since).map_err(|reason| Error::Malformed { path: path.into(), reason })?;
    entries.retain(|entry| entry.received >= since);
    entries.sort_by_key(|entry| entry.received);
    Ok(entries)
}

fn parse(text: &str, since: Timestamp) -> Result<Vec<AuditEntry>, String> {
    // As the API server writes a time: always as long, so that texts compare as times do.
    let since = format!("{since:.6}");
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let mut entries = Vec::new();
    for (index, line) in whole.lines().enumerate() {
        // A log of many stories is read over and over: what was answered before is not decoded.
        if line.split_once(ANSWERED).is_some_and(|(_, time)| time.split('"').next() < Some(since.as_str())) {
            continue;
        }
        let raw: Raw = serde_json::from_str(line).map_err(|error| format!("line {}: {error}", index + 1))?;
        if raw.stage == "ResponseComplete" {
            entries.push(raw.into());
        }
    }
    Ok(entries)
}

/// The fields of `audit.k8s.io/v1` Event that we use.
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

#[derive(Deserialize)]
struct RawUser {
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

/// Metadata only: bodies would put Secrets into a log.
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
    fn an_entry_says_who_did_what_to_which_object_and_when() {
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
    fn a_line_still_being_written_is_left_for_later() {
        assert_eq!(parse(&format!("{LINE}\n{}", &LINE[..40]), Timestamp::UNIX_EPOCH).unwrap().len(), 1);
    }

    #[test]
    fn only_answered_requests_count() {
        let started = LINE.replace("ResponseComplete", "ResponseStarted");
        assert!(parse(&format!("{started}\n"), Timestamp::UNIX_EPOCH).unwrap().is_empty());
    }

    #[test]
    fn what_was_answered_before_is_left_out_and_what_was_answered_then_is_not() {
        let since = |text: &str| parse(&format!("{LINE}\n"), text.parse().unwrap()).unwrap().len();
        assert_eq!(since("2026-11-21T00:00:00.25Z"), 1);
        assert_eq!(since("2026-11-21T00:00:00.250001Z"), 0);
    }

    #[test]
    fn a_broken_line_is_named_by_number() {
        let error = parse(&format!("{LINE}\nnonsense\n"), Timestamp::UNIX_EPOCH).unwrap_err();
        assert!(error.starts_with("line 2: "), "{error}");
    }
}
