mod bombs;
mod same;

use serde_json::{Value, json};

use super::*;
use crate::Values;

fn map(value: Value) -> Values {
    serde_json::from_value(value).unwrap()
}

fn evaluated(values: Value) -> (Value, Vec<String>) {
    let scope = Scope::new(map(json!({
        "spec": {"region": "R1", "replicas": 3, "presets": ["compute"]},
        "credentials": {"nova": {"database": "s3cret"}},
        "features": {"network": {"backend": "ovn"}},
    })));
    let (values, secret) = Template::compile(map(values)).unwrap().evaluate(&scope).unwrap();
    (Value::Object(values), secret.iter().map(ToString::to_string).collect())
}

#[test]
fn whole_scalars_keep_their_type() {
    let (values, secret) = evaluated(json!({
        "whole": "${spec.replicas}", "text": "x-${spec.replicas}-${spec.region}", "list": ["${spec.presets}"],
        "plain": "$${spec.region} $HOME", "map": "${ {'a': 1}.a }", "when": "${features.network.backend == 'ovn' ? ['ovn'] : null}",
        "password": "${credentials.nova.database}", "url": "u:${credentials.nova.database}@h", "number": 1.5,
    }));
    assert_eq!(
        values,
        json!({"whole": 3, "text": "x-3-R1", "list": [["compute"]], "plain": "${spec.region} $HOME", "map": 1,
               "when": ["ovn"], "password": "s3cret", "url": "u:s3cret@h", "number": 1.5})
    );
    assert_eq!(secret, ["password", "url"]);
}

#[test]
fn reports_invalid_expressions() {
    for (text, start) in [
        ("${spec.", "\"${spec.\" has a `${` without its `}`; add the `}`, or write `$${` for a literal `${`"),
        ("${spec +}", "`spec +` is not a valid CEL expression: column 7: a value is missing after `+`; write one, "),
        (
            "${feature.network}",
            "`feature.network` uses `feature`, which does not exist; choose from spec, features, openstack",
        ),
    ] {
        let (path, error) = Template::compile(map(json!({"a": {"b": text}}))).unwrap_err();
        assert_eq!(path.to_string(), "a.b");
        assert!(error.to_string().starts_with(start), "{error}");
    }
}

#[test]
fn errors_never_print_values() {
    let scope = Scope::new(map(json!({"credentials": {"nova": {"database": "s3cret"}}})));
    for text in ["${credentials.nova.database + 1}", "${credentials.nova.missing}", "${int(credentials.nova.database)}"]
    {
        let (_, error) = Template::compile(map(json!({"a": text}))).unwrap().evaluate(&scope).unwrap_err();
        assert!(!error.to_string().contains("s3cret"), "{error}");
        assert!(error.to_string().contains("can't be evaluated: "), "{error}");
    }
}

#[test]
fn accepts_comprehension_variables() {
    assert!(Expression::compile("spec.presets.exists(p, p == 'ha')").is_ok());
}

fn failed(expression: &str, variables: Value) -> Error {
    Expression::compile(expression).unwrap().evaluate(&Scope::new(map(variables))).unwrap_err()
}

#[test]
fn keys_lists_and_merges_maps() {
    let (values, secret) = evaluated(json!({
        "keyed": "${keyed([{'name': 'a', 'size': 1}, {'name': 'b'}], 'name')}",
        "none": "${keyed([], 'name')}",
        "made": "${keyed(spec.presets.map(p, {'name': p, 'on': true}), 'name')}",
        "merged": "${merge([{'a': {'b': 1, 'c': 1}}, {'a': {'c': null}, 'd': [2]}])}",
    }));
    assert_eq!(
        values,
        json!({"keyed": {"a": {"size": 1}, "b": {}}, "none": {}, "made": {"compute": {"on": true}},
               "merged": {"a": {"b": 1, "c": null}, "d": [2]}})
    );
    assert!(secret.is_empty());
    for expression in
        ["keyed([{'name': 'a'}, {'name': 'a'}], 'name')", "keyed([1], 'name')", "keyed([{'n': 'a'}], 'name')"]
    {
        assert!(failed(expression, json!({})).to_string().ends_with("function `keyed` failed"), "{expression}");
    }
    assert!(failed("merge([1])", json!({})).to_string().ends_with("function `merge` failed"));
}

#[test]
fn marks_values_from_secrets_as_secret() {
    let variables = map(
        json!({"features": {"identity": {"ldap": [{"name": "corp", "password": {"name": "ldap", "key": "bind"}}]}}}),
    );
    let secrets = Secrets::from([(("ldap".to_owned(), "bind".to_owned()), "s3cret".to_owned())]);
    let outer = Scope::new(variables);
    let scope = outer.nested(Values::new()).with_secrets(secrets);
    let values = json!({"domains": "${keyed(features.identity.ldap.map(d, {'name': d.name, 'pass': secret(d.password)}), 'name')}",
                        "url": "u:${secret({'name': 'ldap', 'key': 'bind'})}@h"});
    let (values, secret) = Template::compile(map(values)).unwrap().evaluate(&scope).unwrap();
    assert_eq!(Value::Object(values), json!({"domains": {"corp": {"pass": "s3cret"}}, "url": "u:s3cret@h"}));
    assert_eq!(secret.iter().map(ToString::to_string).collect::<Vec<_>>(), ["domains", "url"]);
}

#[test]
fn marks_whole_lists_as_secret() {
    let scope = Scope::new(map(json!({"credentials": {"a": {"b": "s3cret"}}, "spec": {"region": "R"}})));
    let secret = "${credentials.a.b}";
    let values =
        json!({"in": {"map": [{"deep": [{"a": secret}, {"b": "${spec.region}"}]}, secret]}, "after": {"x": secret}});
    let (_, secret) = Template::compile(map(values)).unwrap().evaluate(&scope).unwrap();
    let mut secret: Vec<_> = secret.iter().map(ToString::to_string).collect();
    secret.dedup();
    assert_eq!(secret, ["after.x", "in.map"]);
}

#[test]
fn names_unavailable_secrets() {
    let error = failed("secret(spec.ref)", json!({"spec": {"ref": {"name": "ldap", "key": "bind"}}}));
    let (name, key) = ("ldap".to_owned(), "bind".to_owned());
    assert_eq!(error, Error::UnavailableSecret { expression: "secret(spec.ref)".into(), name, key });
    let error = failed("secret(spec.ref)", json!({"spec": {"ref": {"name": "ldap"}}}));
    let expected = "`secret(spec.ref)` can't be evaluated: the reference to the Secret needs the fields \
                    `name` and `key`; `key` is missing or is not a string";
    assert_eq!(error.to_string(), expected);
    for expression in ["secret('ldap')", "secret('ldap', 'bind')"] {
        let error = failed(expression, json!({})).to_string();
        assert!(error.contains("a function does not support its arguments"), "{error}");
    }
}

#[test]
fn finds_unknown_variables_in_comprehensions() {
    assert!(Expression::compile("spec.presets.exists(a, a == zzz)").is_err());
}

#[test]
fn joins_splits_and_replaces() {
    let (values, _) = evaluated(json!({
        "text": "${['a', 'b', 3].join(',')}", "empty": "${[].join(',')}", "map": "${[['b', 'x'], ['a', spec.replicas]].toMap()}",
        "list": "${' a, b:c,,'.split(',')}",
        "part": "${'https://a.b:1/c/d'.replace('https://', '').replace(':', '%3A').replace('/', '%2F')}",
    }));
    assert_eq!(
        values,
        json!({"text": "a,b,3", "empty": "", "map": {"a": 3, "b": "x"}, "list": ["a", "b:c"], "part": "a.b%3A1%2Fc%2Fd"})
    );
    for (expression, function) in
        [("[[1]].join(',')", "join"), ("['a'].toMap()", "toMap"), ("[[1, 2]].toMap()", "toMap")]
    {
        let expected = format!("function `{function}` failed");
        assert!(failed(expression, json!({})).to_string().ends_with(&expected), "{expression}");
    }
}

#[test]
fn derives_openssh_key_pairs() {
    let (values, _) =
        evaluated(json!({"private": "${sshKey('secret').private}", "public": "${sshKey('secret').public}"}));
    // The expected public key is the output of `ssh-keygen -y` for the expected private key.
    let public = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIF0DaoWM6J+ERJF2LrieK/vVCkoKDaZY5LJiiyWxF64J\n";
    let private = [
        "-----BEGIN OPENSSH PRIVATE KEY-----",
        "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW",
        "QyNTUxOQAAACBdA2qFjOifhESRdi64niv71QpKCg2mWOSyYoslsReuCQAAAIhdA2qFXQNq",
        "hQAAAAtzc2gtZWQyNTUxOQAAACBdA2qFjOifhESRdi64niv71QpKCg2mWOSyYoslsReuCQ",
        "AAAEAruA1Tex2j44vTA2GqhVaGveDqzXFi/vaiX+l79SeiW10DaoWM6J+ERJF2LrieK/vV",
        "CkoKDaZY5LJiiyWxF64JAAAAAAECAwQF",
        "-----END OPENSSH PRIVATE KEY-----\n",
    ];
    assert_eq!(values, json!({"private": private.join("\n"), "public": public}));
    assert!(failed("sshKey(1)", json!({})).to_string().contains("sshKey"));
}
