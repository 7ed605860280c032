//! Fields of a file's resource that the CRD does not know, with their lines: a file with them is refused here as the API server would.

use kube::CustomResourceExt;
use serde_json::Value;

use crate::api::OpenStackDeployment;
use crate::rule::{self, keys_of};
use crate::yaml::{self, Located};

/// A line for every field of `text`, one YAML document, that the CRD does not know; `before` are the lines of the file before it.
pub fn unknown_fields(place: &str, text: &str, before: u64) -> anyhow::Result<Vec<String>> {
    let value: Value = yaml::parse(place, text)?;
    let located: Located = yaml::parse(place, text)?;
    let crd = serde_json::to_value(OpenStackDeployment::crd())?;
    let found = rule::unknown_fields(&crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"], &value);
    let line = |field: &str| located.nearest(keys_of(field).iter().map(String::as_str)).line() + before;
    Ok(found
        .into_iter()
        .map(|told| format!("{place}:{}: {}: {}", line(&told.field), told.field, told.message))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_fields_have_the_lines_of_their_file() {
        let text = "apiVersion: osdpl.dev/v1alpha1\nkind: OpenStackDeployment\nspec:\n  openstackRelease: \"2026.1\"\n  foo: 1\n  \
                    services:\n    nova:\n      enbled: false\n      releases:\n        nova:\n          values:\n            any: {thing: 1}\n";
        assert_eq!(
            unknown_fields("cloud.yaml", text, 10).unwrap(),
            [
                "cloud.yaml:15: spec.foo: there is no such field; correct it, or take it out",
                "cloud.yaml:18: spec.services.nova.enbled: there is no such field, did you mean \"enabled\"?; correct it, or take it out",
            ]
        );
    }
}
