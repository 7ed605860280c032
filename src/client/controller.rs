//! Runs a controller until it is stopped, and logs its errors.

use futures::{Stream, StreamExt};
use kube::Resource;
use kube::runtime::controller::{Action, Error};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher;
use tokio_util::sync::CancellationToken;

use crate::stored::Stored;

/// The result of one pass (reconcile) over a resource, or the reason why kube could not start the pass.
type Outcome<K, E> = Result<(ObjectRef<K>, Action), Error<E, watcher::Error>>;

/// The reason why kube can't watch the resources of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    /// The CRD of the resources does not exist.
    Undefined,
    /// The API server does not accept the operator's token.
    Unauthorized,
    Forbidden,
    Other,
}

impl Refusal {
    fn of(error: &watcher::Error) -> Self {
        let code = match error {
            watcher::Error::InitialListFailed(error)
            | watcher::Error::WatchStartFailed(error)
            | watcher::Error::WatchFailed(error) => match error {
                kube::Error::Api(status) => status.code,
                _ => return Self::Other,
            },
            watcher::Error::WatchError(status) => status.code,
            watcher::Error::NoResourceVersion => return Self::Other,
        };
        match code {
            404 => Self::Undefined,
            401 => Self::Unauthorized,
            403 => Self::Forbidden,
            _ => Self::Other,
        }
    }

    /// Returns what the user must do so that kube can watch the resources. The log message about the failed watch ends
    /// with this text.
    fn remedy(self) -> &'static str {
        match self {
            Self::Undefined => "apply their CRD (osdpl crd)",
            Self::Unauthorized => "check the operator's token or kubeconfig, which the API server does not accept",
            Self::Forbidden => "grant the operator's service account the permissions of its ClusterRole",
            Self::Other => "check the health of the API server",
        }
    }
}

/// Runs the passes (reconciles) of a controller until `stop` is cancelled. Returns when the last pass has ended.
///
/// `failed` is the log message about a failed pass. The log shows the error with it.
///
/// Calls `on_listed` when kube has listed the resources for the first time, even if some of them are unreadable
/// ([`Stored`]). The caller then makes the operator's pod ready. The pod must become ready even if some resources are
/// unreadable: the API server sends the webhook's requests only to a ready pod, and without the webhook nobody can
/// correct a resource.
///
/// Before the first list, kube does not end a controller when `stop` is cancelled. In that case, this function ends the
/// controller itself.
pub async fn run_controller<K, E>(
    passes: impl Stream<Item = Outcome<Stored<K>, E>>,
    failed: &str,
    store: &Store<Stored<K>>,
    on_listed: impl Fn(),
    stop: &CancellationToken,
) where
    K: Resource<DynamicType = ()> + Clone + 'static,
    E: std::error::Error + 'static,
{
    let passes = passes.for_each(|outcome| {
        match outcome {
            Ok(_) | Err(Error::ObjectNotFound(_)) => {}
            Err(Error::QueueError(error)) => {
                let (kind, remedy) = (K::kind(&()), Refusal::of(&error).remedy());
                tracing::warn!(%error, %kind, "the operator can't watch resources of this kind, and retries; {remedy}");
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

    /// Runs a controller against a fake API server that answers list requests with the result of `list`. Returns
    /// whether the controller called `on_listed`.
    async fn is_listed(list: &'static (dyn Fn() -> Response<Body> + Sync)) -> bool {
        let (stop, was_listed) = (CancellationToken::new(), AtomicBool::new(false));
        let refused = stop.clone();
        let respond = async move |request: Request| {
            if request.uri().query().is_some_and(|query| query.contains("watch=")) {
                return Response::new(Body::from_stream(futures::stream::pending::<Result<Vec<u8>, Infallible>>()));
            }
            let response = list();
            if !response.status().is_success() {
                refused.cancel();
            }
            response
        };
        let client = Client::new(Router::new().fallback(respond), "cloud");
        let controller = Controller::new(Api::<Stored<OpenStackDeployment>>::all(client), watcher::Config::default());
        let store = controller.store();
        let passes = controller.graceful_shutdown_on(stop.clone().cancelled_owned()).run(
            async |_, _| Ok::<_, Infallible>(Action::await_change()),
            |_, _, _| Action::await_change(),
            Arc::new(()),
        );
        let on_listed = || {
            was_listed.store(true, Ordering::Relaxed);
            stop.cancel();
        };
        let running = run_controller(passes, "pass failed", &store, on_listed, &stop);
        tokio::time::timeout(Duration::from_mins(1), running).await.expect("the controller stops within a minute");
        was_listed.load(Ordering::Relaxed)
    }

    fn list(items: &serde_json::Value) -> Response<Body> {
        let list = json!({
            "apiVersion": "osdpl.dev/v1alpha1", "kind": "OpenStackDeploymentList",
            "metadata": {"resourceVersion": "1"}, "items": items,
        });
        Response::new(Body::from(list.to_string()))
    }

    #[tokio::test]
    async fn stops_whether_or_not_resources_were_listed() {
        let missing = is_listed(&|| {
            let status = json!({"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound"});
            let response = Response::builder().status(StatusCode::NOT_FOUND);
            response.body(Body::from(status.to_string())).unwrap()
        });
        assert!(!missing.await);
        let empty = is_listed(&|| list(&json!([])));
        assert!(empty.await);
    }

    #[tokio::test]
    async fn is_ready_while_a_resource_is_unreadable() {
        let unreadable = is_listed(&|| {
            let spec = json!({"openstackRelease": "2026.1", "approval": "OfAnotherVersion"});
            let metadata = json!({"name": "cloud", "namespace": "openstack"});
            list(&json!([{
                "apiVersion": "osdpl.dev/v1alpha1", "kind": "OpenStackDeployment", "metadata": metadata, "spec": spec,
            }]))
        });
        assert!(unreadable.await);
    }

    #[test]
    fn reports_remedies() {
        let refused = |code| kube::Error::Api(Box::new(kube::core::Status::failure("no", "").with_code(code)));
        let remedy = |error| Refusal::of(&watcher::Error::InitialListFailed(error)).remedy();
        assert!(remedy(refused(404)).contains("osdpl crd"));
        assert!(remedy(refused(401)).contains("token"));
        assert!(remedy(refused(403)).contains("ClusterRole"));
        assert!(remedy(refused(500)).contains("API server"));
    }
}
