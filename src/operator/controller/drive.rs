//! A controller from the first list of its resources to its end.

use futures::{Stream, StreamExt};
use kube::Resource;
use kube::runtime::controller::{Action, Error};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher;
use tokio_util::sync::CancellationToken;

/// How a pass ended, or why none was begun.
type Outcome<K, E> = Result<(ObjectRef<K>, Action), Error<E, watcher::Error>>;

/// Why resources can't be watched.
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

    /// What to do.
    fn remedy(self) -> &'static str {
        match self {
            Self::Undefined => "apply its definition to the cluster (osdpl crd)",
            Self::Forbidden => "give the operator's service account the rights of its ClusterRole",
            Self::Unreadable => {
                "one that is stored is none by this program's definition: apply that (osdpl crd), and correct the field that the error names, or go back to the version of osdpl before"
            }
            Self::Other => "see whether the API server is well",
        }
    }
}

/// Has passes run, and logs each that fails with this word; returns once those that run at `stop`, of which they know, have ended. `listed` is told when
/// the resources were listed once, and while one of them can't be read: who may correct it asks the webhook, and reaches a pod that is ready alone.
///
/// Until then kube holds all passes back, and with them its end: there is nothing to wait for.
pub async fn drive<K, E>(
    passes: impl Stream<Item = Outcome<K, E>>,
    failed: &str,
    (store, listed): (&Store<K>, impl Fn()),
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
                tracing::warn!(%error, %kind, "its resources can't be watched, and that is tried again; {}", refusal.remedy());
                if refusal == Refusal::Unreadable {
                    listed();
                }
            }
            Err(error) => tracing::warn!(%error, "{failed}"),
        }
        std::future::ready(())
    });
    let unlisted = async {
        tokio::select! {
            biased;
            ready = store.wait_until_ready() => {
                if ready.is_ok() {
                    listed();
                }
                std::future::pending::<()>().await;
            }
            () = stop.cancelled() => {}
        }
    };
    tokio::select! {
        () = passes => {}
        () = unlisted => {}
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

    /// Whether the resources were listed by its end, which comes as soon as the API server has answered.
    async fn is_listed(list: &'static (dyn Fn() -> Response<Body> + Sync)) -> bool {
        let (stop, was_listed) = (CancellationToken::new(), AtomicBool::new(false));
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
        let listed = || {
            was_listed.store(true, Ordering::Relaxed);
            stop.cancel();
        };
        let driven = drive(passes, "pass failed", (&store, listed), &stop);
        tokio::time::timeout(Duration::from_mins(1), driven).await.expect("it ends");
        was_listed.load(Ordering::Relaxed)
    }

    #[tokio::test]
    async fn it_ends_when_it_is_told_to_whether_or_not_the_resources_were_ever_listed() {
        let missing = is_listed(&|| {
            let status = json!({"kind": "Status", "status": "Failure", "code": 404, "message": "404 page not found", "reason": "NotFound"});
            let answer = Response::builder().status(StatusCode::NOT_FOUND);
            answer.body(Body::from(status.to_string())).unwrap()
        });
        assert!(!missing.await, "what was never listed is not said to be");
        let empty = is_listed(&|| {
            let list = json!({"apiVersion": "osdpl.dev/v1alpha1", "kind": "OpenStackDeploymentList", "metadata": {"resourceVersion": "1"}, "items": []});
            Response::new(Body::from(list.to_string()))
        });
        assert!(empty.await);
    }

    #[tokio::test]
    async fn a_resource_that_cannot_be_read_keeps_nobody_from_correcting_it() {
        let unreadable = is_listed(&|| {
            let spec = json!({"openstackRelease": "2026.1", "approval": "OfAnotherVersion"});
            let item = json!({"apiVersion": "osdpl.dev/v1alpha1", "kind": "OpenStackDeployment", "metadata": {"name": "cloud", "namespace": "openstack"}, "spec": spec});
            let list = json!({"apiVersion": "osdpl.dev/v1alpha1", "kind": "OpenStackDeploymentList", "metadata": {"resourceVersion": "1"}, "items": [item]});
            Response::new(Body::from(list.to_string()))
        });
        assert!(unreadable.await, "the pod of the webhook is ready");
    }

    #[test]
    fn what_keeps_resources_from_being_watched_has_its_remedy() {
        let refused = |code| kube::Error::Api(Box::new(kube::core::Status::failure("no", "").with_code(code)));
        let remedy = |error| Refusal::of(&watcher::Error::InitialListFailed(error)).remedy();
        assert!(remedy(refused(404)).contains("osdpl crd"));
        assert!(remedy(refused(403)).contains("ClusterRole"));
        let unreadable = serde_json::from_str::<u8>("x").unwrap_err();
        assert!(remedy(kube::Error::SerdeError(unreadable)).contains("correct the field that the error names"));
        assert!(remedy(refused(500)).contains("API server"));
    }
}
