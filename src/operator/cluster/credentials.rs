//! Writes our Secrets with credentials.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::PostParams;

use super::{Cluster, Error, Explain, Inputs, MANAGER};
use osdpl_core::credentials;
use osdpl_decide::SecretWrite;

impl Cluster {
    /// Creates or replaces a Secret with credentials; draws those that are to be generated.
    ///
    /// # Errors
    /// When the API server refuses, or someone else changed the Secret meanwhile.
    pub async fn store_credentials(&self, write: &SecretWrite, inputs: &Inputs) -> Result<(), Error> {
        let (namespace, name) = (write.namespace(), write.name());
        let mut secret = write.secret.clone();
        for (key, recipe) in &write.generated {
            let value = credentials::generate_credential(recipe, random)?;
            secret.data.get_or_insert_default().insert(key.clone(), ByteString(value.into_bytes()));
        }
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let params = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
        // Both forms fail when someone else was faster (create: exists; replace: its resourceVersion), and the next pass reads again.
        let written =
            if write.exists { api.replace(name, &params, &secret).await } else { api.create(&params, &secret).await };
        if written.is_err() {
            inputs.own().forget(namespace, name);
        }
        inputs.own().put(written.because(|| format!("storing credentials in Secret {name}"))?);
        Ok(())
    }
}

fn random(mut buffer: &mut [u8]) -> Result<(), Error> {
    while !buffer.is_empty() {
        let filled = rustix::rand::getrandom(&mut *buffer, rustix::rand::GetRandomFlags::empty())
            .map_err(|error| Error::Object(format!("the kernel gives no random bytes: {error}")))?;
        buffer = &mut buffer[filled..];
    }
    Ok(())
}
