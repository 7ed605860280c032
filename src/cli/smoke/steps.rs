//! Reads `values/smoke.yaml`: the steps of the test.

use anyhow::{Context, anyhow};
use serde::Deserialize;
use serde_json::{Value, json};

use osdpl_core::catalog::Files;
use osdpl_core::openstack::HttpMethod;
use osdpl_values::Values;
use osdpl_values::expr::{Expression, Template};

const FILE: &str = "values/smoke.yaml";

/// The content of the file. The head of the file explains the fields.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    steps: Vec<Step>,
}

/// A part of the test that passes, fails or is skipped as a whole.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Step {
    /// The name by which other steps need this step.
    pub name: String,
    /// The description of the step for people, such as `create a volume`.
    pub title: String,
    /// The types of the API in Keystone's service catalogue. The first type that the cloud has is used.
    pub service: Vec<String>,
    /// The steps that must have passed.
    #[serde(default)]
    pub needs: Vec<String>,
    pub requests: Vec<Request>,
}

/// A request to an OpenStack API, and what osdpl expects of the response.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    /// The types of the API, if they are not those of the step.
    pub service: Option<Vec<String>>,
    #[serde(default)]
    pub method: HttpMethod,
    path: String,
    body: Option<Value>,
    /// Whether osdpl sends the disk image as the body.
    #[serde(default)]
    pub disk: bool,
    /// The value of the header `Accept`; JSON if unset.
    pub accept: Option<String>,
    /// The condition without which osdpl skips the rest of the step, and the reason.
    pub requires: Option<Condition>,
    /// The condition until which osdpl repeats the request, and the text that explains why it does not hold.
    pub until: Option<Condition>,
    /// The condition with which the step fails, and the reason.
    pub fails: Option<Condition>,
    /// The status codes with which the API says that the cloud does not offer what the step tests.
    #[serde(default)]
    pub skip: Vec<u16>,
    /// The name in `facts` for the response.
    pub save: Option<String>,
    /// The requests that undo this request.
    #[serde(default)]
    pub undo: Vec<UndoRequest>,
}

/// A request that undoes another one.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UndoRequest {
    pub method: HttpMethod,
    path: String,
    body: Option<Value>,
    /// The condition until which osdpl reads the object after this request.
    pub until: Option<String>,
}

/// A condition, and the expression that returns a text for people.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Condition {
    pub condition: String,
    pub because: String,
}

/// Returns a path and a body as a template with the keys `path` and `body`.
fn template(path: &str, body: Option<&Value>) -> anyhow::Result<Template> {
    let mut values = Values::new();
    values.insert("path".to_owned(), json!(path));
    values.insert("body".to_owned(), json!(body));
    Template::compile(values).map_err(|(at, error)| anyhow!("{path}: {at}: {error}"))
}

impl UndoRequest {
    /// See [`template`].
    pub(super) fn template(&self) -> anyhow::Result<Template> {
        template(&self.path, self.body.as_ref())
    }
}

impl Request {
    /// See [`template`].
    pub(super) fn template(&self) -> anyhow::Result<Template> {
        template(&self.path, self.body.as_ref())
    }

    /// Verifies that the expressions of the request are valid.
    fn check(&self) -> anyhow::Result<()> {
        self.template()?;
        let conditions = self.until.iter().chain(&self.fails).chain(&self.requires);
        let expressions = conditions.flat_map(|condition| [&condition.condition, &condition.because]);
        let undo = self.undo.iter().filter_map(|undo| undo.until.as_ref());
        for expression in expressions.chain(undo) {
            Expression::compile(expression).with_context(|| self.path.clone())?;
        }
        self.undo.iter().try_for_each(|undo| undo.template().map(drop))
    }
}

/// Returns the steps of the test in the order in which they run.
///
/// # Errors
/// Returns an error if a file of the user does not have the expected form, contains an invalid expression, or needs a
/// step that does not run before.
pub(super) fn read(files: &Files) -> anyhow::Result<Vec<Step>> {
    let text = files.get(FILE).with_context(|| format!("the catalogue has no file {FILE}; copy osdpl's"))?;
    let Content { steps } = text.read(FILE)?;
    for (index, step) in steps.iter().enumerate() {
        let is_earlier = |name: &&String| steps[..index].iter().any(|step| step.name == **name);
        if let Some(unknown) = step.needs.iter().find(|name| !is_earlier(name)) {
            anyhow::bail!("{FILE}: step {} needs {unknown:?}, but no earlier step has this name", step.name);
        }
        for request in &step.requests {
            request.check().with_context(|| format!("{FILE}: step {}", step.name))?;
        }
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_steps_are_valid() {
        let steps = read(&osdpl_core::files::built_in()).unwrap();
        assert!(steps.len() > 10);
    }

    #[test]
    fn reports_invalid_steps() {
        let step = |change: &str| format!("steps: [{{name: a, title: A, service: [image], {change}}}]");
        for (change, expected) in [
            ("requests: [{path: /v2, untli: 'true'}]", "unknown field `untli`"),
            (
                "requests: [{path: /v2, until: {condition: 'facts.answer =', because: a}}]",
                "step a: /v2: `facts.answer =` is not a valid CEL",
            ),
            ("requests: [{path: '/v2/${fact.a}'}]", "uses `fact`, which does not exist"),
            ("requests: [], needs: [b]", "step a needs \"b\", but no earlier step has this name"),
        ] {
            let files: Files = [(FILE.to_owned(), step(change).into())].into();
            let error = format!("{:#}", read(&files).err().unwrap());
            assert!(error.contains(expected), "{error}");
        }
    }
}
