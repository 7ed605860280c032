//! Tests which warnings the status messages contain if the spec has more warnings than one message may contain.

use super::*;

fn warning(field: &str, message: &str) -> Finding {
    Finding::new(Level::Warning, field, message)
}

#[test]
fn other_warnings_precede_unknown_keys_and_values() {
    let spec = OpenStackDeploymentSpec { openstack_release: "2026.1".into(), ..Default::default() };
    let unknown = "the values of chart front have no x: helm passes unknown keys on, but most likely no template reads them; correct or remove them";
    let field = |number: u8| format!("spec.common.values.x{number}");
    let mut findings: Vec<Finding> = (0..12).map(|number| warning(&field(number), unknown)).collect();
    findings.extend((12..24).map(|number| warning(&field(number), "changes nothing")));
    findings.push(warning("spec.presets", unknown));
    findings.push(warning("spec.features.tls", "the certificate ran out"));
    let ready = plan(&[("front", Step::Ready)]);
    let (status, events) = reported_of(None, &ready, &spec, &recorded(Status::Deployed), &findings, NOW);
    let message = &status.conditions.iter().find(|condition| condition.type_ == "Ready").unwrap().message;
    let first =
        "; warning: spec.features.tls: the certificate ran out; warning: spec.common.values.x12: changes nothing";
    assert!(
        message.contains(first) && message.contains("and 16 more warnings") && !message.contains("have no x"),
        "{message}"
    );
    let warned = events.iter().filter(|event| event.reason == "SpecWarning");
    let warned: Vec<&str> = warned.map(|event| event.note.as_str()).collect();
    assert!(warned.len() == 10 && warned.contains(&"spec.features.tls: the certificate ran out"), "{warned:?}");
}
