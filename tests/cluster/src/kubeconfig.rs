//! Writes kubeconfigs, and requests tokens of service accounts.

use std::collections::BTreeMap;
use std::path::Path;

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::config::{AuthInfo, Kubeconfig, NamedAuthInfo};
use kube::{Api, Client};
use serde_json::json;

use crate::Error;
use crate::folder::{Folder, write_private};

/// The lifetime of a service account's token in seconds: a week, longer than any demo.
const TOKEN_SECONDS: i64 = 7 * 24 * 3600;

/// Writes the kubeconfig of a user with a client certificate. `certificate` is the name of the certificate's file
/// without `.crt`, and `server` is the URL of the API server. The kubeconfig is JSON, which is valid YAML.
pub(crate) fn write(folder: &Folder, path: &Path, server: &str, certificate: &str) -> Result<(), Error> {
    let cluster = json!({
        "server": server,
        "certificate-authority": folder.pki("ca.crt"),
    });
    let user = json!({
        "client-certificate": folder.pki(&format!("{certificate}.crt")),
        "client-key": folder.pki(&format!("{certificate}.key")),
    });
    let document = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "local", "cluster": cluster }],
        "users": [{ "name": "local", "user": user }],
        "contexts": [{ "name": "local", "context": { "cluster": "local", "user": "local" } }],
        "current-context": "local",
    });
    write_private(path, format!("{document:#}\n"))
}

/// Returns a new token of a service account. The token is valid for a week.
pub(crate) async fn token(client: &Client, namespace: &str, account: &str) -> Result<String, Error> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let spec = TokenRequestSpec { expiration_seconds: Some(TOKEN_SECONDS), ..Default::default() };
    let request = TokenRequest { spec: Some(spec), ..Default::default() };
    let action = || format!("requesting a token of service account {namespace}/{account}");
    let answer = accounts.create_token_request(account, &PostParams::default(), &request).await;
    let status = answer.map_err(Error::api(action()))?.status;
    let missing = || Error::Api { action: action(), reason: "the response contains no token".into() };
    status.and_then(|status| status.token).ok_or_else(missing)
}

/// Writes a kubeconfig to `path`, with which a user logs in with a token. The new kubeconfig names the same cluster as
/// the kubeconfig `base`. It does not contain the token, but the path `token_file` of the file with the token.
pub(crate) fn write_for_token(base: &Path, path: &Path, token_file: &Path) -> Result<(), Error> {
    let malformed = |reason: String| Error::Malformed { path: base.into(), reason };
    let mut config = Kubeconfig::read_from(base).map_err(|error| malformed(error.to_string()))?;
    let current = config.current_context.clone().unwrap_or_default();
    let context = config.contexts.iter_mut().find(|context| context.name == current);
    let context = context.and_then(|context| context.context.as_mut());
    context.ok_or_else(|| malformed("the kubeconfig has no current context".into()))?.user = Some(USER.into());
    let auth_info = AuthInfo { token_file: Some(token_file.display().to_string()), ..Default::default() };
    config.auth_infos =
        vec![NamedAuthInfo { name: USER.into(), auth_info: Some(auth_info), other: BTreeMap::default() }];
    config.contexts.retain(|context| context.name == current);
    write_private(path, format!("{:#}\n", json!(config)))
}

const USER: &str = "service-account";
