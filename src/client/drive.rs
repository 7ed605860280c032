//! Runs a controller from the first list of its resources until it is stopped.

use futures::{Stream, StreamExt};
use kube::Resource;
use kube::runtime::controller::{Action, Error};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher;
use tokio_util::sync::CancellationToken;

/// The result of a pass, or the reason why none was started.
type Outcome<K, E> = Result<(ObjectRef<K>, Action), Error<E, watcher::Error>>;

/// The reason why resources cannot be watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    Undefined,
    Forbidden,
    Unreadable,
    Other,
}

impl Refusal {
    fn of(error: &watcher::Error) -> Self {
        let code = match error {
            watcher::Error::InitialListFailed(error)
            | watcher::Error::WatchStartFailed(error)
            | watcher::Error::WatchFailed(error) => match error {
                kube::Error::SerdeError(_) => return Self::Unreadable,
                kube::Error::Api(status) => status.code,
                _ => return Self::Other,
            },
            watcher::Error::WatchError(status) => status.code,
            watcher::Error::NoResourceVersion => return Self::Other,
        };
        match code {
            404 => Self::Undefined,
            401 | 403 => Self::Forbidden,
            _ => Self::Other,
        }
    }

    /// Returns the remedy.
    fn remedy(self) -> &'static str {
        match self {
            Self::Undefined => "apply its definition to the cluster (osdpl crd)",
            Self::Forbidden => "give the operator's service account the rights of its ClusterRole",
            Self::Unreadable => {
                "a stored resource does not match this version's definition: apply the definition (osdpl crd) and correct the field that the error names, or return to the previous version of osdpl"
            }
            Self::Other => "check the API server",
        }
    }
}

/// Runs passes until `stop`, and logs each failed pass with the message `failed`.
///
/// `passes` must end at `stop` as well, and the function returns when the running passes are complete. Before the first
/// list is complete, kube starts no pass and does not end the stream, so the function returns at once then.
///
/// `on_listed` is called when the resources were listed once, and whenever one of them cannot be read: a person who
/// corrects that resource needs the webhook, which only a ready pod serves.
pub async fn drive<K, E>(
    passes: impl Stream<Item = Outcome<K, E>>,
    failed: &str,
    (store, on_listed): (&Store<K>, impl Fn()),
    stop: &CancellationToken,
) where
    K: Resource<DynamicType = ()> + Clone + 'static,
    E: std::error::Error + 'static,
{
    let passes = passes.for_each(|outcome| {
        match outcome {
            Ok(_) | Err(Error::ObjectNotFound(_)) => {}
            Err(Error::QueueError(error)) => {
                let (kind, refusal) = (K::kind(&()), Refusal::of(&error));
                tracing::warn!(%error, %kind, "resources can't be watched; retrying; {}", refusal.remedy());
                if refusal == Refusal::Unreadable {
                    on_listed();
                }
            }
            Err(error) => tracing::warn!(%error, "{failed}"),
        }
        std::future::ready(())
    });
    let stopped_before_list = async {
        tokio::select! {
            biased;
            ready = store.wait_until_ready() => {
                if ready.is_ok() {
                    on_listed();
                }
                std::future::pending::<()>().await;
            }
            () = stop.cancelled() => {}
        }
    };
    tokio::select! {
        () = passes => {}
        () = stopped_before_list => {}
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use axum::Router;
    use axum::body::Body;
    use axum::extract::Request;
    use axum::http::{Response, StatusCode};
    use kube::runtime::Controller;
    use kube::{Api, Client};
    use serde_json::json;

    use super::*;
    use osdpl_core::api::OpenStackDeployment;

    /// Runs a controller until the API server has answered; returns whether `on_listed` was called.
    async fn calls_on_listed(list: &'static (dyn Fn() -> Response<Body> + Sync)) -> bool {
        let (stop, was_called) = (CancellationToken::new(), AtomicBool::new(false));
        let refused = stop.clone();
        let answer = async move |request: Request| {
            if request.uri().query().is_some_and(|query| query.contains("watch=")) {
                return Response::new(Body::from_stream(futures::stream::pending::<Result<Vec<u8>, Infallible>>()));
            }
            let answer = list();
            if !answer.status().is_success() {
                refused.cancel();
            }
            answer
        };
        let client = Client::new(Router::new().fallback(answer), "cloud");
        let controller = Controller::new(Api::<OpenStackDeployment>::all(client), watcher::Config::default());
        let store = controller.store();
        let passes = controller.graceful_shutdown_on(stop.clone().cancelled_owned()).run(
            async |_, _| Ok::<_, Infallible>(Action::await_change()),
            |_, _, _| Action::await_change(),
            Arc::new(()),
        );
        let on_listed = || {
            was_called.store(true, Ordering::Relaxed);
            stop.cancel();
        };
        let driven = drive(passes, "pass failed", (&store, on_listed), &stop);
        tokio::time::timeout(Duration::from_mins(1), driven).await.expect("the controller ends");
        was_called.load(Ordering::Relaxed)
    }

    #[tokio::test]
    async fn stops_whether_or_not_resources_were_listed() {
        let missing = calls_on_listed(&|| {
            let status = json!({"kind": "Status", "status": "Failure", "code": 404, "message": "404 page not found", "reason": "NotFound"});
            let answer = Response::builder().status(StatusCode::NOT_FOUND);
            answer.body(Body::from(status.to_string())).unwrap()
        });
        assert!(!missing.await, "the resources were never listed");
        let empty = calls_on_listed(&|| {
            let list = json!({"apiVersion": "osdpl.dev/v1alpha1", "kind": "OpenStackDeploymentList", "metadata": {"resourceVersion": "1"}, "items": []});
            Response::new(Body::from(list.to_string()))
        });
        assert!(empty.await);
    }

    #[tokio::test]
    async fn unreadable_resources_count_as_listed() {
        let unreadable = calls_on_listed(&|| {
            let spec = json!({"openstackRelease": "2026.1", "approval": "OfAnotherVersion"});
            let item = json!({"apiVersion": "osdpl.dev/v1alpha1", "kind": "OpenStackDeployment", "metadata": {"name": "cloud", "namespace": "openstack"}, "spec": spec});
            let list = json!({"apiVersion": "osdpl.dev/v1alpha1", "kind": "OpenStackDeploymentList", "metadata": {"resourceVersion": "1"}, "items": [item]});
            Response::new(Body::from(list.to_string()))
        });
        assert!(unreadable.await, "the pod with the webhook becomes ready");
    }

    #[test]
    fn refused_watches_have_a_remedy() {
        let refused = |code| kube::Error::Api(Box::new(kube::core::Status::failure("no", "").with_code(code)));
        let remedy = |error| Refusal::of(&watcher::Error::InitialListFailed(error)).remedy();
        assert!(remedy(refused(404)).contains("osdpl crd"));
        assert!(remedy(refused(403)).contains("ClusterRole"));
        let unreadable = serde_json::from_str::<u8>("x").unwrap_err();
        assert!(remedy(kube::Error::SerdeError(unreadable)).contains("correct the field that the error names"));
        assert!(remedy(refused(500)).contains("API server"));
    }
}
