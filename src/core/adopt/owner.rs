//! Detects whether another controller, such as Flux or Argo CD, manages a release. If osdpl managed the release, too,
//! the two would revert each other's changes.

use crate::observed::Labels;

/// The label that Flux sets on every object of a release. Its value is the name of the `HelmRelease` (helm-controller,
/// `postrender.OriginLabels`).
const FLUX_NAME: &str = "helm.toolkit.fluxcd.io/name";
/// The label that Flux sets on every object of a release. Its value is the namespace of the `HelmRelease`.
const FLUX_NAMESPACE: &str = "helm.toolkit.fluxcd.io/namespace";
/// A label with which Argo CD marks the objects that it manages.
///
/// Users can configure Argo CD to set a different label, but osdpl does not look for such labels, because other
/// programs may set them, too. Only Argo CD sets the label `argocd.argoproj.io/instance`.
const ARGO_LABEL: &str = "argocd.argoproj.io/instance";
/// The annotation with which Argo CD marks the objects that it manages.
const ARGO_ANNOTATION: &str = "argocd.argoproj.io/tracking-id";

/// Returns a message if another controller manages a release; `None` if none does. The message names the controller,
/// and says how to end its management of the release.
///
/// `object` is a workload of the release, such as `Deployment openstack/keystone-api`, with these `labels` and
/// `annotations`.
pub fn find_other_controller(object: &str, labels: &Labels, annotations: &Labels) -> Option<String> {
    if let Some(name) = labels.get(FLUX_NAME) {
        let namespace = labels.get(FLUX_NAMESPACE).map_or("flux-system", String::as_str);
        return Some(format!(
            "Flux manages the release: {object} is labelled for HelmRelease {namespace}/{name}; suspend this HelmRelease (flux -n {namespace} suspend helmrelease {name}) and \
             delete the HelmRelease (Flux does not uninstall a suspended HelmRelease), then remove the labels {FLUX_NAME} and {FLUX_NAMESPACE} from the workloads of the release"
        ));
    }
    let tracking = annotations.get(ARGO_ANNOTATION).map(|id| id.split(':').next().unwrap_or_default());
    let application = tracking.or_else(|| labels.get(ARGO_LABEL).map(String::as_str))?;
    Some(format!(
        "Argo CD manages the release: {object} is marked for Application {application}; delete the Application without its objects (argocd app delete {application} \
         --cascade=false), then remove the label {ARGO_LABEL} and the annotation {ARGO_ANNOTATION} from the workloads of the release"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(all: &[(&str, &str)]) -> Labels {
        all.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn detects_flux_and_argo_cd_with_a_remedy() {
        let object = "Deployment openstack/keystone-api";
        let message = |labels: &[(&str, &str)], annotations: &[(&str, &str)]| {
            find_other_controller(object, &map(labels), &map(annotations)).unwrap_or_default()
        };
        let flux = message(&[(FLUX_NAME, "keystone"), (FLUX_NAMESPACE, "flux")], &[]);
        assert!(
            flux.contains(
                "HelmRelease flux/keystone; suspend this HelmRelease (flux -n flux suspend helmrelease keystone)"
            ),
            "{flux}"
        );
        let argo = message(&[], &[(ARGO_ANNOTATION, "cloud:apps/Deployment:openstack/keystone-api")]);
        assert!(argo.contains("argocd app delete cloud --cascade=false"), "{argo}");
        assert!(message(&[(ARGO_LABEL, "other")], &[]).contains("Application other"));
        assert_eq!(message(&[("app.kubernetes.io/managed-by", "Helm")], &[]), "");
    }
}
