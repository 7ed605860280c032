//! The schema of a custom resource, judged offline in the API server's own words (k8s.io/apiextensions-apiserver `pkg/apiserver/validation`,
//! kube-openapi `pkg/validation`), each with a remedy after it.

use serde_json::Value;

use super::Judged;

/// Everything that `schema` says against `value`, which stands at `field`; `explained` is what `kubectl explain` calls the resource.
pub fn judge(schema: &Value, value: &Value, field: &str, explained: &str) -> Vec<Judged> {
    let mut judge = Judge { explained, found: Vec::new() };
    judge.node(schema, value, field);
    judge.found
}

struct Judge<'a> {
    explained: &'a str,
    found: Vec<Judged>,
}

impl Judge<'_> {
    fn say(&mut self, field: &str, problem: impl std::fmt::Display) {
        let asked: String =
            field.split('[').map(|part| part.split_once(']').map_or(part, |(_, after)| after)).collect();
        let message = format!("{problem}; `kubectl explain {}.{asked}` says what it takes", self.explained);
        self.found.push(Judged::error("schema", field, message));
    }

    fn node(&mut self, schema: &Value, value: &Value, field: &str) {
        // Outside of free-form maps a null means nothing, and the API server drops it.
        if value.is_null() {
            return;
        }
        let wanted = schema["type"].as_str();
        if schema["x-kubernetes-int-or-string"] == true {
            if !(value.is_i64() || value.is_u64() || value.is_string()) {
                let kind = kind(value);
                self.say(
                    field,
                    format!("Invalid value: \"{kind}\": {field} in body must be of type integer or string: \"{kind}\""),
                );
                return;
            }
        } else if let Some(wanted) = wanted.filter(|wanted| !fits(wanted, value)) {
            let kind = kind(value);
            self.say(field, format!("Invalid value: \"{kind}\": {field} in body must be of type {wanted}: \"{kind}\""));
            return;
        }
        if let Some(allowed) = schema["enum"].as_array().filter(|allowed| !allowed.contains(value)) {
            let list = allowed.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            self.say(field, format!("Unsupported value: {value}: supported values: {list}"));
        }
        match value {
            Value::String(text) => self.text(schema, text, field),
            Value::Number(number) => self.number(schema, number.as_f64().unwrap_or_default(), value, field),
            Value::Array(items) => self.list(schema, items, field),
            Value::Object(map) => self.map(schema, map, field),
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn text(&mut self, schema: &Value, text: &str, field: &str) {
        let length = text.chars().count() as u64;
        let shown = Value::from(text);
        if let Some(most) = schema["maxLength"].as_u64().filter(|most| length > *most) {
            self.say(field, format!("Too long: may not be more than {most} bytes"));
        }
        if let Some(least) = schema["minLength"].as_u64().filter(|least| length < *least) {
            self.say(field, format!("Invalid value: {shown}: {field} in body should be at least {least} chars long"));
        }
        if let Some(pattern) = schema["pattern"].as_str().filter(|pattern| !crate::expr::matches(text, pattern)) {
            self.say(field, format!("Invalid value: {shown}: {field} in body should match '{pattern}'"));
        }
        let format = schema["format"].as_str().unwrap_or_default();
        if format == "date-time" && text.parse::<k8s_openapi::jiff::Timestamp>().is_err() {
            self.say(field, format!("Invalid value: {shown}: {field} in body must be of type date-time: {shown}"));
        }
    }

    fn number(&mut self, schema: &Value, number: f64, shown: &Value, field: &str) {
        if let Some(least) = schema["minimum"].as_f64().filter(|least| number < *least) {
            self.say(
                field,
                format!("Invalid value: {shown}: {field} in body should be greater than or equal to {least}"),
            );
        }
        if let Some(most) = schema["maximum"].as_f64().filter(|most| number > *most) {
            self.say(field, format!("Invalid value: {shown}: {field} in body should be less than or equal to {most}"));
        }
    }

    fn list(&mut self, schema: &Value, items: &[Value], field: &str) {
        let length = items.len() as u64;
        if let Some(most) = schema["maxItems"].as_u64().filter(|most| length > *most) {
            self.say(field, format!("Too many: {length}: must have at most {most} items"));
        }
        if let Some(least) = schema["minItems"].as_u64().filter(|least| length < *least) {
            self.say(field, format!("Invalid value: {length}: {field} in body should have at least {least} items"));
        }
        for (index, item) in items.iter().enumerate() {
            self.node(&schema["items"], item, &format!("{field}[{index}]"));
        }
    }

    fn map(&mut self, schema: &Value, map: &serde_json::Map<String, Value>, field: &str) {
        let length = map.len() as u64;
        if let Some(most) = schema["maxProperties"].as_u64().filter(|most| length > *most) {
            self.say(field, format!("Too many: {length}: must have at most {most} items"));
        }
        if let Some(least) = schema["minProperties"].as_u64().filter(|least| length < *least) {
            self.say(
                field,
                format!("Invalid value: {length}: {field} in body should have at least {least} properties"),
            );
        }
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if map.get(name).is_none_or(Value::is_null) {
                self.say(&below(field, name), "Required value");
            }
        }
        let known = schema["properties"].as_object();
        for (key, value) in map {
            let any = &schema["additionalProperties"];
            match known.and_then(|known| known.get(key)) {
                Some(schema) => self.node(schema, value, &below(field, key)),
                None if any.is_object() => self.node(any, value, &below(field, key)),
                None => {}
            }
        }
    }
}

/// A field below another, quoted where its name holds dots.
pub fn below(field: &str, key: &str) -> String {
    let dot = if field.is_empty() { "" } else { "." };
    if key.contains('.') { format!("{field}{dot}\"{key}\"") } else { format!("{field}{dot}{key}") }
}

fn fits(wanted: &str, value: &Value) -> bool {
    match wanted {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        // What JSON writes as 1.0 is an integer to the API server.
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "number" => value.is_number(),
        _ => true,
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
