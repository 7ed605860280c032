//! Sends requests to Services through the API server, for programs outside of the cluster's network.

use hyper::{Method, Request};
use kube::Client;
use kube::client::Body;

use super::http::{Headers, read};
use osdpl_core::endpoint::{ProbeResponse, Url};

/// Sends a request to a Service. The API server forwards the request and the response
/// (<https://kubernetes.io/docs/tasks/access-application-cluster/access-cluster-services/>). Returns `None` if the host
/// of the URL is not a Service.
///
/// The user needs the right to use the subresource `services/proxy`. The API server verifies no certificate of the
/// Service.
///
/// # Errors
/// Returns an error if there is no response from the API server. If the API server refuses the request, or can't
/// forward it, the response is the API server's (403 or 503).
pub async fn send_to_service(
    client: &Client,
    url: &Url,
    method: Method,
    headers: &Headers,
    body: Vec<u8>,
) -> Option<Result<ProbeResponse, kube::Error>> {
    let (name, namespace) = url.service()?;
    let scheme = if url.tls { "https" } else { "http" };
    let path = format!("/api/v1/namespaces/{namespace}/services/{scheme}:{name}:{}/proxy{}", url.port, url.path);
    let request = Request::builder().method(method).uri(path);
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, value));
    let request = request.body(Body::from(body)).map_err(kube::Error::HttpError);
    let response = async {
        let response = client.send(request?).await?;
        Ok(read(response).await.unwrap_or_else(|error| error))
    };
    Some(response.await)
}
