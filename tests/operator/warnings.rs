//! Warnings and errors about a spec: the Ready condition and `osdpl plan` report them with the same text.

use osdpl_core::api::{condition, reason};
use serde_json::json;

use crate::cloud::{StatusAccess, services, with_values};
use crate::world::run_test;

#[test]
fn condition_and_plan_report_the_same_warnings() {
    run_test("warnings", async |world| {
        let _operator = world.operator().start().await;
        let questionable =
            json!({"pod": {"replicas": {"server": 2}, "replicass": 2}, "manifests": {"network_policy": "false"}});
        let spec = with_values(services(&["rabbitmq"]), "rabbitmq", questionable);
        world.apply(&spec).await;
        let cloud = world.until_ready().await;
        let message = cloud.condition(condition::READY).unwrap().message;
        let plan = world.osdpl(&["plan"]);
        for (kind, text) in [
            ("a rule", "pod.replicas.server of rabbitmq is 2: an even number of RabbitMQ servers has no majority"),
            ("an unknown key", "have no pod.replicass (did you mean \"replicas\"?)"),
            ("a lint warning", "manifests.network_policy: is a string where the chart has a boolean"),
        ] {
            assert!(message.contains(text), "{kind}: {message}");
            assert!(plan.contains(text), "{kind}: {plan}");
        }

        let none = json!({"pod": {"replicas": {"server": 0}}});
        world.apply(&with_values(services(&["rabbitmq", "mariadb"]), "mariadb", none)).await;
        let cloud = world.until_reason(reason::INVALID).await;
        let text = "pod.replicas.server of mariadb is 0: the cloud has no database";
        let message = cloud.condition(condition::READY).unwrap().message;
        assert!(message.contains(text), "{message}");
        let plan = world.run(&["plan"]);
        let plan = [plan.stdout, plan.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        assert!(plan.contains(text), "{plan}");
        assert_eq!(world.helm_runs().len(), 1, "the operator must not run helm for a spec that it refuses");
    });
}
