use super::*;

#[test]
fn every_rule_has_a_schema() {
    let catalog = Catalog::load(&crate::testing::files(&[])).unwrap();
    let mut crd = serde_json::to_value(crd(&catalog).unwrap()).unwrap();
    let schema = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    for rule in RULES {
        let at = find(schema, rule.at).unwrap_or_else(|| panic!("there is no schema at {:?}", rule.at));
        assert!(at["x-kubernetes-validations"].as_array().unwrap().contains(&rule.schema()), "{}", rule.at);
    }
}

#[test]
fn names_features_with_invalid_schemas() {
    let feature = "feature: colour\ndescription: x\nschema: {type: object, description: [x]}\ndefault: {}\n";
    let catalog = Catalog::load(&crate::testing::files(&[("values/features/colour.yaml", feature)])).unwrap();
    let error = crd(&catalog).unwrap_err().to_string();
    assert!(
        error.starts_with("values/features/colour.yaml: schema: invalid type: sequence, expected a string"),
        "{error}"
    );
    assert!(error.ends_with("write it as the OpenAPI schema of a CRD (type, properties, enum, bounds)"), "{error}");
}

#[test]
fn removes_unsupported_keywords() {
    let mut schema = json!({"type": "object", "default": {}, "additionalProperties": false, "properties": {
        "default": {"type": "string", "nullable": true, "x-osdpl-secret": true}, "list": {"type": "array", "items": {"type": "string", "default": "x"}}}});
    make_structural(&mut schema);
    let kept = json!({"type": "object", "properties": {
        "default": {"type": "string"}, "list": {"type": "array", "items": {"type": "string"}}}});
    assert_eq!(schema, kept);
}
