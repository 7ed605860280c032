//! Defines the errors of requests to the API server.

use std::sync::atomic::{AtomicBool, Ordering};

/// An error of a request to the API server.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server refused the request, or is unreachable.
    #[error("{what}: {}", explain(.error))]
    Api {
        /// The action of the request, such as `reading node n1`.
        what: String,
        /// The error of the Kubernetes client.
        error: Box<kube::Error>,
    },
    /// The API server did not respond, so osdpl stopped the whole reconcile pass. The field is the time limit of a
    /// pass.
    #[error(
        "the API server did not respond in time: osdpl stopped the pass after {} s, and retries it; if this lasts, \
         check the API server", .0.as_secs()
    )]
    Timeout(std::time::Duration),
    /// Any other error, for example an object with invalid content. The field is the complete message.
    #[error("{0}")]
    Object(String),
}

impl Error {
    /// Whether the API server refused a write because someone changed the object after osdpl read it.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Api { error, .. } if matches!(&**error, kube::Error::Api(status) if status.is_conflict()))
    }

    /// Whether the API server answered the request with an error.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Api { error, .. } if matches!(&**error, kube::Error::Api(_)))
    }

    /// Whether the API server refused the request because the operator lacks a permission.
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Self::Api { error, .. } if matches!(&**error, kube::Error::Api(status) if status.is_forbidden()))
    }
}

/// Whether this process is the operator.
static IS_OPERATOR: AtomicBool = AtomicBool::new(false);

/// Tells [`explain`] that this process is the operator. Commands do not call this function: they send their requests
/// with the permissions of the user, and the operator's chart grants none of these.
pub fn explain_as_operator() {
    IS_OPERATOR.store(true, Ordering::Relaxed);
}

/// Returns the message of a failed request. If the operator lacks a permission, or if the CRD is older than osdpl, the
/// message says what the user must do.
pub fn explain(error: &kube::Error) -> String {
    let is_operator = IS_OPERATOR.load(Ordering::Relaxed);
    match error {
        kube::Error::Api(status) if is_operator && status.is_forbidden() && !is_namespace_terminating(status) => {
            format!("{} (grant the permission with rbac.extraRules of the operator's chart)", refusal(status))
        }
        kube::Error::Api(status) if status.message.contains(UNDECLARED) => {
            format!(
                "{} (the CRD is older than this version of osdpl: apply the CRD that `osdpl crd` prints)",
                status.message
            )
        }
        other => api_message(other),
    }
}

/// A phrase in the API server's message if a request contains a field that the installed CRD does not declare.
const UNDECLARED: &str = "field not declared in schema";

/// Returns the message of the API server, or the error of the Kubernetes client if there was no response.
pub fn api_message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if status.code >= 500 => {
            format!("the API server can't process the request: {}", describe_failure(status))
        }
        kube::Error::Api(status) => refusal(status),
        other @ (kube::Error::Service(_) | kube::Error::HyperError(_)) => {
            format!("the API server does not answer: {other}")
        }
        // Leave out serde's message: it may quote the object, which may be a Secret.
        kube::Error::SerdeError(error) => format!(
            "osdpl cannot parse the response of the API server: the JSON is not in the expected format at column {}",
            error.column()
        ),
        other => other.to_string(),
    }
}

/// Returns the status code and the message of an error response. Leaves out a message that is the HTML page of a load
/// balancer.
pub fn describe_failure(status: &kube::core::Status) -> String {
    format!("{} {}", status.code, if is_page(status) { "without a reason" } else { &status.message })
}

/// Returns the message of an error response. If the message is a load balancer's HTML page, returns only the code, such
/// as "503 without a reason".
pub fn refusal(status: &kube::core::Status) -> String {
    if is_page(status) { describe_failure(status) } else { status.message.clone() }
}

fn is_page(status: &kube::core::Status) -> bool {
    status.message.trim_start().starts_with('<')
}

/// Whether the API server refused to create an object because the object's namespace is being deleted.
///
/// The status code for this is 403, as for a missing permission. So the function checks the causes in the response.
fn is_namespace_terminating(status: &kube::core::Status) -> bool {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    causes.any(|cause| cause.reason == "NamespaceTerminating")
}

/// Extends errors of the Kubernetes client with a description of the failed request.
pub trait ErrorContext<T> {
    /// Converts an error to an `Error` that says what the request does. `what` returns this description, such as
    /// `reading node n1`.
    ///
    /// # Errors
    /// Returns the converted error if `self` is an error.
    fn with_context(self, what: impl FnOnce() -> String) -> Result<T, Error>;
}

impl<T> ErrorContext<T> for Result<T, kube::Error> {
    fn with_context(self, what: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|error| Error::Api { what: what(), error: Box::new(error) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_operator_names_the_remedy_for_a_missing_permission() {
        let forbidden = kube::core::Status::failure("pods is forbidden", "Forbidden").with_code(403);
        let error = kube::Error::Api(Box::new(forbidden));
        assert_eq!(explain(&error), "pods is forbidden");
        explain_as_operator();
        assert!(explain(&error).contains("rbac.extraRules"), "{}", explain(&error));
    }

    #[test]
    fn only_a_failed_connection_means_that_the_api_server_does_not_answer() {
        let refused = api_message(&kube::Error::Service("connection refused".into()));
        assert!(refused.starts_with("the API server does not answer: "), "{refused}");
        let unreadable = kube::Error::SerdeError(serde_json::from_str::<bool>(r#""hunter2""#).unwrap_err());
        let message = api_message(&unreadable);
        assert!(message.starts_with("osdpl cannot parse the response") && !message.contains("hunter2"), "{message}");
    }
}
