//! Pods die, and the cloud recovers without help.

use std::time::{Duration, Instant};

use crate::cloud::Cloud;
use crate::instance::{Instance, PATIENCE};
use crate::probe::{INSTANCE, Probes};

#[test]
#[ignore = "needs a real cloud: make test-real"]
fn cloud_recovers_from_the_death_of_database_and_broker() {
    let cloud = Cloud::find();
    let instance = Instance::start(&cloud, "osdpl-failures");
    for (what, selector) in [
        ("the message broker", "application=rabbitmq,component=server"),
        ("the database", "application=mariadb,component=server"),
    ] {
        let before = cloud.pods();
        let probes = Probes::start(&cloud, Some(&instance.url));
        let begin = Instant::now();
        cloud.kubectl(&["delete", "pods", "-l", selector, "--force", "--grace-period=0"]);
        let pod = ["pods", "-l", selector];
        until(&format!("a new pod of {what}"), || {
            let all = cloud.get(&pod);
            let items = all["items"].as_array().unwrap();
            let is_new = |name: &str, uid: &str| before.get(name).is_none_or(|old| old != uid);
            !items.is_empty()
                && items.iter().all(|pod| {
                    let (name, uid) = (&pod["metadata"]["name"], &pod["metadata"]["uid"]);
                    let ready = pod["status"]["conditions"].as_array().into_iter().flatten();
                    is_new(name.as_str().unwrap(), uid.as_str().unwrap())
                        && ready.clone().any(|one| one["type"] == "Ready" && one["status"] == "True")
                })
        });
        cloud.until_ready();
        println!("  {what} was killed; the cloud is Ready after {:.0?}", begin.elapsed());
        let reports = probes.stop();
        let lost = reports.iter().find(|report| report.name == INSTANCE).map(|report| report.failures);
        assert_eq!(lost, Some(0), "the instance must not notice the death of {what}");
        instance.check();
    }
    drop(instance);
    println!("{}", cloud.osdpl(&["smoke"]));
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < end, "there is still not {what}");
        std::thread::sleep(Duration::from_secs(1));
    }
}
