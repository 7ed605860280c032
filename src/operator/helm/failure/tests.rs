use proptest::prelude::*;

use super::*;
use osdpl_core::scrub::Scrubber;

const IMMUTABLE_3: &str = include_str!("messages/helm3-immutable.txt");
const IMMUTABLE_4: &str = include_str!("messages/helm4-immutable.txt");

/// Error messages of helm 3.22.0 and 4.3.1, each with the expected kind of failure and the object that the message
/// names.
const MESSAGES: &[(&str, &str, &str)] = &[
    ("Error: UPGRADE FAILED: another operation (install/upgrade/rollback) is in progress", "Pending", ""),
    ("Error: UPGRADE FAILED: \"rel99\" has no deployed releases", "NoDeployedReleases", ""),
    ("Error: uninstall: Release not loaded: nosuch: release: not found", "ReleaseNotFound", ""),
    (
        "Error: Kubernetes cluster unreachable: Get \"https://127.0.0.1:1/version\": dial tcp 127.0.0.1:1: connect: connection refused",
        "Unreachable",
        "",
    ),
    (
        "Error: kubernetes cluster unreachable: Get \"https://127.0.0.1:16443/version\": tls: failed to verify certificate: x509: \
             certificate signed by unknown authority",
        "Unreachable",
        "",
    ),
    (
        "Error: create: failed to create: Secret \"sh.helm.release.v1.rel.v1\" is invalid: data: Too long: may not be more than 1048576 \
             bytes",
        "TooLarge",
        "",
    ),
    ("Error: UPGRADE FAILED: update: failed to update: etcdserver: request is too large", "TooLarge", ""),
    (
        "Error: unable to continue with install: ConfigMap \"lab-cm\" in namespace \"lab4\" exists and cannot be imported into the \
             current release: invalid ownership metadata; annotation validation error: key \"meta.helm.sh/release-name\" must equal \
             \"rel5\": current value is \"rel\"",
        "NotOurs",
        "ConfigMap lab-cm",
    ),
    (
        "Error: create: failed to create: secrets \"sh.helm.release.v1.rel9.v1\" is forbidden: unable to create new content in \
             namespace term3 because it is being terminated",
        "NamespaceTerminating",
        "",
    ),
    ("Error: create: failed to create: namespaces \"nope3\" not found", "NamespaceMissing", ""),
    (
        "level=WARN msg=\"upgrade failed\" name=rel2 error=\"conflict occurred\"\nError: UPGRADE FAILED: conflict occurred while \
             applying object labb4/lab-cm /v1, Kind=ConfigMap: Apply failed with 1 conflict: conflict with \"human\": .data.a",
        "Conflict",
        "ConfigMap lab-cm",
    ),
    (
        "Error: query: failed to query with labels: secrets is forbidden: User \"weak\" cannot list resource \"secrets\" in API group \
             \"\" in the namespace \"lab3\"",
        "Forbidden",
        "list resource \"secrets\" in API group \"\"",
    ),
    (
        "Error: failed pre-install: warning: Hook pre-install lab/templates/all.yaml failed: 1 error occurred:\n\t* secrets \
             \"lab-keys\" already exists\n\n",
        "AlreadyExists",
        "secrets lab-keys",
    ),
    (
        "Error: unable to build kubernetes objects from release manifest: resource mapping not found for name: \"x\" namespace: \"\" \
             from \"\": no matches for kind \"Database\" in version \"k8s.mariadb.com/v1alpha1\"\nensure CRDs are installed first",
        "KindUnknown",
        "",
    ),
    (
        "Error: UPGRADE FAILED: post-upgrade hooks failed: 1 error occurred:\n\t* job lab-db-sync failed: BackoffLimitExceeded\n\n",
        "HookFailed",
        "Job lab-db-sync",
    ),
    (
        "Error: UPGRADE FAILED: post-upgrade hooks failed: resource Job/lab4/lab-db-sync not ready. status: Failed, message: Job \
             Failed. failed: 7/1",
        "HookFailed",
        "Job lab-db-sync",
    ),
    ("Error: failed post-install: 1 error occurred:\n\t* timed out waiting for the condition\n\n", "TimedOut", ""),
    (
        "Error: failed post-install: resource Job/lab4/lab-db-sync not ready. status: InProgress, message: Job in progress\ncontext \
             deadline exceeded",
        "TimedOut",
        "Job lab-db-sync",
    ),
    (
        "Error: 1 error occurred:\n\t* Service \"lab_svc\" is invalid: [metadata.name: Invalid value: \"lab_svc\": a lowercase RFC 1123 \
             label must consist of lower case alphanumeric characters, spec.ports[0].port: Invalid value: 99999: must be between 1 and 65535]",
        "Invalid",
        "Service lab_svc",
    ),
    (
        "Error: UPGRADE FAILED: failed to create resource: server-side apply failed for object lab4/lab-svc /v1, Kind=Service: failed \
             to create typed patch object (lab4/lab-svc; /v1, Kind=Service): .spec.portz: field not declared in schema",
        "Invalid",
        "Service lab-svc",
    ),
    (
        "Error: file '/charts/x.tgz' does not appear to be a gzipped archive; got 'application/octet-stream'",
        "ChartUnreadable",
        "",
    ),
    ("Error: path \"/charts/none.tgz\" not found", "ChartUnreadable", ""),
    ("Error: unable to load chart archive", "ChartUnreadable", ""),
    ("Error: unexpected EOF", "ChartUnreadable", ""),
    ("Error: execution error at (lab/templates/all.yaml:59:25): database.password.is.missing", "Unrenderable", ""),
    (
        "Error: lab/templates/broken.yaml:1:11\n  executing \"lab/templates/broken.yaml\" at <.Values.a.b.c>:\n    nil pointer \
             evaluating interface {}.b",
        "Unrenderable",
        "",
    ),
    (
        "Error: YAML parse error on lab/templates/broken.yaml: error converting YAML to JSON: yaml: mapping values are not allowed",
        "Unrenderable",
        "",
    ),
    (
        "coalesce.go:237: warning: skipped value for lab.image: Not a table.\nError: values don't meet the specifications of the \
             schema(s) in the following chart(s):\nlab:\n- at '/image': got object, want string\n",
        "Unrenderable",
        "",
    ),
    ("Error: context canceled", "Cancelled", ""),
    ("Error: release name is invalid: aaaa", "Other", ""),
    ("", "Other", ""),
];

#[test]
fn classifies_messages_of_both_helms() {
    for (text, category, expected_object) in MESSAGES {
        let failure = classify(text);
        let object = match &failure {
            Failure::NotOurs(object)
            | Failure::Conflict(object)
            | Failure::AlreadyExists(object)
            | Failure::Invalid(object)
            | Failure::TimedOut(object)
            | Failure::HookFailed(object) => object.as_ref().map(ToString::to_string).unwrap_or_default(),
            Failure::Forbidden(what) => what.clone(),
            _ => String::new(),
        };
        let name = format!("{failure:?}");
        let name = name.split('(').next().unwrap_or_default();
        assert_eq!((name, object.as_str()), (*category, *expected_object), "{text}");
    }
}

#[test]
fn names_every_immutable_object() {
    let jobs = ["nova-bootstrap", "nova-cell-setup"].map(|name| Subject { kind: "Job".into(), name: name.into() });
    assert_eq!(classify(IMMUTABLE_3), Failure::Immutable(jobs.to_vec()));
    assert_eq!(classify(IMMUTABLE_4), Failure::Immutable(jobs.to_vec()));
}

/// The API server writes `Forbidden` for a missing permission, but also for a change of an immutable field. A message
/// about an immutable field must not count as a missing permission.
#[test]
fn an_immutable_stateful_set_is_not_forbidden() {
    let text = "Error: UPGRADE FAILED: cannot patch \"mariadb-server\" with kind StatefulSet: StatefulSet.apps \"mariadb-server\" is \
                invalid: spec: Forbidden: updates to statefulset spec for fields other than 'replicas' are forbidden";
    let expected = Subject { kind: "StatefulSet".into(), name: "mariadb-server".into() };
    assert_eq!(classify(text), Failure::Immutable(vec![expected]));
}

#[test]
fn condenses_a_dumped_pod_template() {
    assert!(IMMUTABLE_4.len() > 8 * 1024);
    for (text, start) in [
        (IMMUTABLE_3, "cannot patch \"nova-bootstrap\" with kind Job: Job.batch \"nova-bootstrap\" is invalid: "),
        (
            IMMUTABLE_4,
            "server-side apply failed for object lab4/nova-bootstrap batch/v1, Kind=Job: Job.batch \"nova-bootstrap\" is invalid: ",
        ),
    ] {
        let line = condense(text);
        assert!(line.starts_with(start), "{line}");
        assert!(line.contains("spec.template: Invalid value: …: field is immutable && "), "{line}");
        assert!(line.contains("nova-cell-setup") && line.ends_with("field is immutable"), "{line}");
        assert!(!line.contains("mysql"), "{line}");
    }
}

#[test]
fn condenses_messages_to_one_line() {
    for (text, expected) in [
        (
            "Error: UPGRADE FAILED: post-upgrade hooks failed: 1 error occurred:\n\t* job lab-db-sync failed: BackoffLimitExceeded\n\n",
            "post-upgrade hooks failed: job lab-db-sync failed: BackoffLimitExceeded",
        ),
        (
            "level=WARN msg=x\nError: failed post-install: resource Job/a/b not ready. status: InProgress, message: Job in progress\n\
             context deadline exceeded",
            "failed post-install: resource Job/a/b not ready. status: InProgress, message: Job in progress; context deadline exceeded",
        ),
        (
            "Error: lab/templates/broken.yaml:1:11\n  executing \"lab\" at <.Values.a>:\n    nil pointer",
            "lab/templates/broken.yaml:1:11; executing \"lab\" at <.Values.a>: nil pointer",
        ),
        ("something\n\nunexpected\nhappened\n", "unexpected; happened"),
        ("", ""),
    ] {
        assert_eq!(condense(text), expected);
    }
}

#[test]
fn keeps_a_short_invalid_value() {
    let text =
        "Error: Service \"a_b\" is invalid: metadata.name: Invalid value: \"a_b\": a DNS label must not hold '_'";
    assert!(condense(text).contains("Invalid value: \"a_b\": a DNS label"));
}

#[test]
fn condenses_a_dump_that_was_cut() {
    let dump = "{\"Value\":\"x\",\"More\":{}},".repeat(5_000);
    let text = format!(
        "Error: cannot patch \"a\" with kind Job: spec.template: Invalid value: {{\"Spec\":[{dump}]}}: field is immutable"
    );
    for shift in 0..24 {
        let cut = format!("{} … {}", &text[..4096 + shift], &text[text.len() - 4096..]);
        let line = condense(&cut);
        assert_eq!(line, "cannot patch \"a\" with kind Job: spec.template: Invalid value: …: field is immutable");
    }
}

#[test]
fn scrubbed_messages_are_still_classified() {
    let text = Scrubber::new(["S3cretPass"]).scrub(IMMUTABLE_4);
    assert!(!text.contains("S3cretPass"));
    assert!(matches!(classify(&text), Failure::Immutable(jobs) if jobs.len() == 2));
}

proptest! {
    #[test]
    fn never_panics_and_bounds_the_length(text in "(Error: |Invalid value: |[{}\"\\\\]|cannot patch \"|object |, Kind=|resource |job |[a-zä ]{1,5}|\n){0,40}") {
        let _ = classify(&text);
        prop_assert!(condense(&text).len() <= 540);
    }
}
