//! Detach, adoption, and the deletion of a cloud with an instance.

use crate::cloud::{Cloud, run, try_run};
use crate::instance::Instance;
use crate::probe::Probes;

/// A detached cloud keeps running. osdpl describes and adopts it again, and no pod restarts.
#[test]
#[ignore = "needs a real cloud: make test-real"]
fn cloud_is_detached_and_adopted_without_a_restart() {
    let cloud = Cloud::find();
    let instance = Instance::start(&cloud, "osdpl-life-cycle");
    let (before, resource) = (cloud.pods(), cloud.resource());
    let probes = Probes::start(&cloud, Some(&instance.url));

    let refused = try_run("kubectl", &["-n", &cloud.namespace, "delete", "osdpl", &cloud.name], "").unwrap_err();
    println!("with an instance, the deletion is refused: {}", refused.trim());
    assert!(refused.contains("instance"), "{refused}");

    println!("{}", cloud.osdpl(&["detach", "--all"]));
    cloud.kubectl(&["wait", "--for=delete", &format!("osdpl/{}", cloud.name), "--timeout=300s"]);
    assert_eq!(cloud.pods(), before, "the pods of a detached cloud run on");

    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    println!("{}", run("osdpl", &["-n", &cloud.namespace, "adopt", "--out", path], ""));
    cloud.kubectl(&["apply", "--server-side", "-f", path]);
    println!("{}", cloud.osdpl(&["plan"]));
    println!("{}", cloud.osdpl(&["adopt", "--all"]));
    let cloud = Cloud::find_any();
    println!("Ready after {:.0?}", cloud.change(&serde_json::json!({"paused": false})));
    assert_eq!(cloud.pods(), before, "an adoption must restart no pod");
    for report in probes.stop() {
        assert_eq!(report.failures, 0, "{}", report.name);
    }
    cloud.replace(&resource);
}
