//! Checks that DNS, browsers and certificates accept host names below a cloud's `spec.publicDomain`.

use osdpl_core::api::OpenStackDeploymentSpec;
use osdpl_core::finding::Finding;

/// Top-level domains that resolvers do not look up in DNS (RFC 6761, 6762 and 7686).
const PRIVATE: [&str; 4] = ["local", "localhost", "invalid", "onion"];

/// Checks `spec.publicDomain`, except for its characters, which a CEL rule of the CRD checks.
pub(super) fn check(spec: &OpenStackDeploymentSpec) -> Vec<Finding> {
    let Some(domain) = &spec.public_domain else { return Vec::new() };
    // Skip a domain with invalid characters, because a CEL rule of the CRD already refuses it.
    if !domain.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || "-.".contains(letter)) {
        return Vec::new();
    }
    let labels: Vec<&str> = domain.split('.').collect();
    let field = "spec.publicDomain";
    let mut found = Vec::new();
    if let Some(long) = labels.iter().find(|label| label.len() > 63) {
        let message = format!("{long:?} has more than 63 characters, which DNS does not allow; choose a shorter name");
        found.push(Finding::error("domain", field, message));
    }
    if domain.ends_with("svc.cluster.local") || domain == "cluster.local" {
        let message = format!(
            "{domain} is the cluster's own domain, which can't be resolved outside of the cluster; use one that your DNS resolves, such as cloud.example.org"
        );
        found.push(Finding::error("domain", field, message));
    } else if ends_in_number(&labels) {
        let message = format!(
            "{domain} ends in a number, so browsers treat it as an IPv4 address and refuse every name in it; use a domain that your DNS resolves, such as cloud.example.org"
        );
        found.push(Finding::warning("domain", field, message));
    } else if let Some(end) = labels.last().filter(|end| PRIVATE.contains(end)) {
        let message = format!(
            "resolvers do not look up names that end in .{end} in DNS; use a domain that your users' DNS resolves, such as cloud.example.org"
        );
        found.push(Finding::warning("domain", field, message));
    } else if labels.len() == 1 {
        let message = format!(
            "{domain} is a single label, which browsers and certificates do not accept as a domain; use one with several labels, such as cloud.{domain}"
        );
        found.push(Finding::warning("domain", field, message));
    }
    found
}

/// Whether the last label of a domain is a number.
///
/// Browsers treat such a domain as an IPv4 address ("ends in a number" in the URL standard). The function returns false
/// for a complete IPv4 address, because a CEL rule of the CRD already refuses it.
fn ends_in_number(labels: &[&str]) -> bool {
    let is_number = |end: &&str| !end.is_empty() && end.chars().all(|letter| letter.is_ascii_digit());
    labels.last().is_some_and(is_number) && labels.join(".").parse::<std::net::Ipv4Addr>().is_err()
}
