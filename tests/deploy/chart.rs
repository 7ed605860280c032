//! Renders the operator's own chart, and checks its objects.

use serde_json::Value;

use crate::path;
use crate::render::{HELMS, helm, own};

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    objects.iter().find(|object| object["kind"] == kind).unwrap_or_else(|| panic!("no {kind}"))
}

#[test]
fn both_helm_versions_lint_the_chart() {
    for program in HELMS {
        let output = helm(program, &["lint", "--strict", path("deploy/osdpl").to_str().unwrap()], "").unwrap();
        assert!(output.contains("1 chart(s) linted, 0 chart(s) failed") && !output.contains("[WARNING]"), "{output}");
    }
}

#[test]
fn pods_are_confined_and_spread() {
    let objects = own(&[]);
    let deployment = of_kind(&objects, "Deployment");
    assert_eq!(deployment["spec"]["replicas"], 2);
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(pod["securityContext"]["runAsUser"], 65532);
    assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
    let container = &pod["containers"][0]["securityContext"];
    assert_eq!(container["readOnlyRootFilesystem"], true);
    assert_eq!(container["allowPrivilegeEscalation"], false);
    assert_eq!(container["capabilities"]["drop"], serde_json::json!(["ALL"]));
    let helm_needs = osdpl_operator::helm::Config::default().grace.as_secs();
    let given = pod["terminationGracePeriodSeconds"].as_u64().unwrap();
    assert!(
        given >= helm_needs + 30,
        "the grace period ({given} s) must be at least 30 s longer than the time that helm gets to end ({helm_needs} s)"
    );
    let spread = &pod["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"][0];
    let selector = &deployment["spec"]["selector"];
    assert_eq!(&spread["podAffinityTerm"]["labelSelector"], selector);
    assert_eq!(&of_kind(&objects, "PodDisruptionBudget")["spec"]["selector"], selector);
    let single = own(&["replicas=1"]);
    assert!(single.iter().all(|object| object["kind"] != "PodDisruptionBudget"), "one pod must have no budget");
}

#[test]
fn lease_rights_are_limited_to_one_name() {
    let objects = own(&[]);
    let role = of_kind(&objects, "Role");
    let named = serde_json::json!({
        "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": [osdpl_operator::lease::NAME],
        "verbs": ["get", "update"],
    });
    assert_eq!(role["rules"][0], named);
    assert_eq!(role["metadata"]["namespace"], of_kind(&objects, "Deployment")["metadata"]["namespace"]);
    // The operator needs this right in the whole cluster: it lists the Leases of operators in other namespaces.
    let listed = serde_json::json!({
        "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": [osdpl_operator::lease::NAME],
        "verbs": ["list"],
    });
    let cluster_wide = of_kind(&objects, "ClusterRole")["rules"].as_array().unwrap();
    let rules: Vec<_> = cluster_wide.iter().filter(|rule| rule.to_string().contains("leases")).collect();
    assert_eq!(rules, [&listed]);
    // An operator finds the namespaces of other operators by the label and the subjects of this binding.
    let binding = of_kind(&objects, "ClusterRoleBinding");
    let (key, value) = osdpl_operator::lease::CHART_LABEL.split_once('=').unwrap();
    assert_eq!(binding["metadata"]["labels"][key], value);
    assert_eq!(binding["subjects"][0]["namespace"], role["metadata"]["namespace"]);
}

#[test]
fn memory_limit_fits_every_slot_by_default() {
    let limit = |settings: &[&str]| {
        let objects = own(settings);
        of_kind(&objects, "Deployment")["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"].clone()
    };
    assert_eq!(limit(&[])["memory"], "2056Mi");
    assert_eq!(limit(&["slots=4"])["memory"], "856Mi");
    assert_eq!(
        limit(&["slots=4", "resources.limits.memory=3Gi", "resources.limits.cpu=2"]),
        serde_json::json!({"memory": "3Gi", "cpu": 2})
    );
}

#[test]
fn settings_reach_the_operator() {
    let objects = own(&[
        "slots=4",
        "charts=/usr/share/osdpl/charts",
        "allowHttpCharts=true",
        "logs=debug",
        "namespaces={a,b}",
        "rbac.extraRules[0].apiGroups[0]=cert-manager.io",
        "rbac.extraRules[0].resources[0]=certificates",
        "rbac.extraRules[0].verbs[0]=get",
        "metrics.serviceMonitor.enabled=true",
    ]);
    let environment = &of_kind(&objects, "Deployment")["spec"]["template"]["spec"]["containers"][0]["env"];
    let value = |name: &str| {
        environment.as_array().unwrap().iter().find(|entry| entry["name"] == name).map(|entry| entry["value"].clone())
    };
    assert_eq!(value("OSDPL_SLOTS").unwrap(), "4");
    assert_eq!(value("OSDPL_METRICS_LISTEN").unwrap(), "0.0.0.0:8081");
    assert_eq!(value("OSDPL_CHARTS").unwrap(), "/usr/share/osdpl/charts");
    assert_eq!(value("OSDPL_ALLOW_HTTP_CHARTS").unwrap(), "true");
    assert_eq!(value("RUST_LOG").unwrap(), "debug");
    assert_eq!(value("OSDPL_NAMESPACES").unwrap(), "a,b");
    let wide = own(&["rbac.clusterWide=true"]);
    assert!(!of_kind(&wide, "Deployment").to_string().contains("OSDPL_NAMESPACES"));
    assert!(value("POD_UID").is_some());
    let rules = of_kind(&objects, "ClusterRole")["rules"].as_array().unwrap();
    assert_eq!(rules.last().unwrap()["apiGroups"], serde_json::json!(["cert-manager.io"]));
    of_kind(&objects, "ServiceMonitor");
}

#[test]
fn refuses_a_misspelt_setting() {
    let chart = path("deploy/osdpl");
    for program in HELMS {
        let output = helm(program, &["template", "x", chart.to_str().unwrap(), "--set", "slot=4"], "").unwrap_err();
        assert!(output.contains("additional properties 'slot' not allowed"), "{output}");
    }
}

#[test]
fn keeps_the_crd_on_uninstall() {
    let objects = own(&[]);
    assert_eq!(
        of_kind(&objects, "CustomResourceDefinition")["metadata"]["annotations"]["helm.sh/resource-policy"],
        "keep"
    );
    assert!(own(&["crd.create=false"]).iter().all(|object| object["kind"] != "CustomResourceDefinition"));
}

#[test]
fn webhook_uses_the_configured_certificate() {
    for (from, first) in
        [("self", "Secret"), ("cert-manager", "Certificate"), ("secret", "ValidatingWebhookConfiguration")]
    {
        let from = format!("webhook.certificate.from={from}");
        let objects = own(&["webhook.enabled=true", &from, "webhook.certificate.issuerRef.name=ca"]);
        let hook = of_kind(&objects, "ValidatingWebhookConfiguration");
        assert_eq!(of_kind(&objects, first)["metadata"]["labels"]["app.kubernetes.io/name"], "osdpl");
        let webhook = &hook["webhooks"][0];
        assert_eq!((&webhook["failurePolicy"], webhook["timeoutSeconds"].as_u64()), (&"Ignore".into(), Some(5)));
        // The webhook must see DELETE, because it refuses the deletion of a cloud with instances.
        assert_eq!(webhook["rules"][0]["operations"], serde_json::json!(["CREATE", "UPDATE", "DELETE"]));
        assert_eq!(webhook["rules"][0]["resources"], serde_json::json!(["openstackdeployments"]));
        assert_eq!(webhook["clientConfig"]["caBundle"].is_string(), first == "Secret");
        assert_eq!(
            hook["metadata"]["annotations"]["cert-manager.io/inject-ca-from"].is_string(),
            first == "Certificate"
        );
        let pod = &of_kind(&objects, "Deployment")["spec"]["template"]["spec"];
        let mounted = pod["volumes"].as_array().unwrap().iter().find(|volume| volume["name"] == "webhook").unwrap();
        assert_eq!(mounted["secret"]["secretName"], "osdpl-webhook-tls");
    }
    assert!(own(&[]).iter().all(|object| object["kind"] != "ValidatingWebhookConfiguration"));
}

#[test]
fn network_policy_admits_only_the_ports_of_the_pod() {
    let ports = |settings: &[&str]| {
        let objects = own(settings);
        let container = of_kind(&objects, "Deployment")["spec"]["template"]["spec"]["containers"][0].clone();
        let named = |port: &Value| port["name"].as_str().unwrap().to_owned();
        let open: Vec<String> = container["ports"].as_array().unwrap().iter().map(named).collect();
        let policy = &of_kind(&objects, "NetworkPolicy")["spec"];
        assert_eq!(policy["policyTypes"], serde_json::json!(["Ingress"]));
        let admitted = policy["ingress"].as_array().unwrap().iter().flat_map(|rule| rule["ports"].as_array().unwrap());
        let admitted: Vec<String> = admitted.map(|port| port["port"].as_str().unwrap().to_owned()).collect();
        assert_eq!(admitted, open);
        (admitted, policy["ingress"][1]["from"].clone())
    };
    assert_eq!(ports(&[]), (vec!["http".into(), "metrics".into()], Value::Null));
    let monitoring = ["webhook.enabled=true", "networkPolicy.metricsFrom[0].podSelector.matchLabels.app=prometheus"];
    let from = serde_json::json!([{"podSelector": {"matchLabels": {"app": "prometheus"}}}]);
    assert_eq!(ports(&monitoring), (vec!["http".into(), "metrics".into(), "webhook".into()], from));
    assert!(own(&["networkPolicy.enabled=false"]).iter().all(|object| object["kind"] != "NetworkPolicy"));
}
