//! Runs the steps of the test, and deletes at the end what they have created.

use std::fmt;
use std::time::Duration;

use hyper::Method;
use serde_json::{Map, Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::disk;
use super::openstack::{ApiRequest, NoResponse, OpenStack, Response, join};
use super::steps::{Condition, Request, Step};
use crate::duration;
use osdpl_client::method;
use osdpl_core::endpoint::Url;
use osdpl_core::openstack::HttpMethod;
use osdpl_values::expr::{Expression, Scope, Template};

/// The pause before osdpl repeats a request.
const PAUSE: Duration = Duration::from_secs(2);

/// The media type of bodies.
const JSON: &str = "application/json";

/// The result of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Passed,
    /// The cloud can't run the step, for this reason.
    Skipped(String),
    /// The step failed, for this reason.
    Failed(String),
    /// The user has stopped the test.
    Interrupted,
}

/// A result whose error is the outcome of a step that does not pass.
type Result<T> = std::result::Result<T, Outcome>;

/// The reason why osdpl no longer waits.
enum Stop {
    TimeIsOver,
    Interrupted,
}

/// A request that undoes another one.
struct Undo {
    /// The name of the step that has created the object.
    step: String,
    request: ApiRequest,
    /// The condition until which osdpl reads the object after the request.
    until: Option<String>,
}

impl fmt::Display for Undo {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {} {}", self.step, self.request.method, self.request.url)
    }
}

/// A run of the test.
pub(super) struct Run<'a> {
    openstack: &'a OpenStack,
    /// The name of the objects.
    name: String,
    /// The time to wait for the condition of a request, and for all deletions together.
    timeout: Duration,
    /// The variable `facts` of the expressions.
    facts: Map<String, Value>,
    /// The names of the steps that have passed.
    passed: Vec<&'a str>,
    /// The requests that delete what the run has created, in the order of creation.
    undo: Vec<Undo>,
    /// The objects that may still exist, for people.
    leftovers: Vec<String>,
}

impl<'a> Run<'a> {
    /// Creates a run whose objects get the name `name`. `options` contains the ids of the instance's image and flavor.
    pub(super) fn new(openstack: &'a OpenStack, name: &str, options: Value, timeout: Duration) -> Self {
        let mut facts = Map::new();
        for (key, value) in [("name", json!(name)), ("project", json!(openstack.project())), ("options", options)] {
            facts.insert(key.to_owned(), value);
        }
        let (passed, undo, leftovers) = (Vec::new(), Vec::new(), Vec::new());
        Self { openstack, name: name.to_owned(), timeout, facts, passed, undo, leftovers }
    }

    /// Runs a step. If `interrupt` is cancelled, the step ends when there is a response to the request that it has sent.
    pub(super) async fn step(&mut self, step: &'a Step, interrupt: &CancellationToken) -> Outcome {
        if let Some(missing) = step.needs.iter().find(|name| !self.passed.contains(&name.as_str())) {
            return Outcome::Skipped(format!("it needs the step {missing}, which has not passed"));
        }
        for request in &step.requests {
            if interrupt.is_cancelled() {
                return Outcome::Interrupted;
            }
            if let Err(outcome) = self.request(step, request, interrupt).await {
                return outcome;
            }
        }
        self.passed.push(&step.name);
        Outcome::Passed
    }

    async fn request(&mut self, step: &Step, request: &Request, interrupt: &CancellationToken) -> Result<()> {
        let types = request.service.as_ref().unwrap_or(&step.service);
        let Some(base) = self.openstack.url(types).cloned() else {
            return Err(Outcome::Skipped(format!("the cloud has no API of the type {}", types.join(" or "))));
        };
        if let Some(requires) = &request.requires
            && !self.holds(&requires.condition).map_err(Outcome::Failed)?
        {
            return Err(Outcome::Skipped(self.reason(requires)));
        }
        let prepared = self.prepare(&base, request).map_err(|why| Outcome::Failed(format!("{}: {why}", step.name)))?;
        let content = self.send_until(request, &prepared, interrupt).await?;
        if let Some(name) = &request.save {
            self.facts.insert(name.clone(), content);
        }
        for undo in &request.undo {
            let prepared = undo.template().map_err(|error| error.to_string());
            let prepared = prepared.and_then(|template| self.evaluate_request(&base, &template, undo.method));
            let request = prepared.map_err(|why| Outcome::Failed(format!("{}: {why}", step.name)))?;
            self.undo.push(Undo { step: step.name.clone(), request, until: undo.until.clone() });
        }
        Ok(())
    }

    /// Sends a request until its condition holds; returns the content of the last response.
    async fn send_until(
        &mut self,
        request: &Request,
        prepared: &ApiRequest,
        interrupt: &CancellationToken,
    ) -> Result<Value> {
        let ApiRequest { method, url, .. } = prepared;
        let (end, is_read) = (self.end(), *method == Method::GET);
        loop {
            let problem = match self.openstack.send(prepared).await {
                Ok(response) if request.skip.contains(&response.code) => {
                    return Err(Outcome::Skipped(response.description));
                }
                Ok(response) if response.is_success() => {
                    let failed = |why| Outcome::Failed(format!("{method} {url}: {why}"));
                    self.facts.insert("answer".to_owned(), response.content);
                    match self.problem(request).map_err(failed)? {
                        None => return Ok(self.facts.remove("answer").unwrap_or_default()),
                        Some(problem) => format!("{method} {url}: {problem}"),
                    }
                }
                Ok(response) if is_read && response.is_temporary() => response.description,
                Ok(response) => return Err(Outcome::Failed(response.description)),
                Err(NoResponse::Lost(why)) if is_read => why,
                Err(NoResponse::Lost(why)) => {
                    if !request.undo.is_empty() {
                        self.leftovers.push(format!("{why}; an object named {} may exist", self.name));
                    }
                    return Err(Outcome::Failed(why));
                }
                Err(NoResponse::Refused(why)) => return Err(Outcome::Failed(why)),
            };
            match pause(end, interrupt).await {
                None => {}
                Some(Stop::Interrupted) => return Err(Outcome::Interrupted),
                Some(Stop::TimeIsOver) => {
                    let time = duration::describe(&self.timeout);
                    return Err(Outcome::Failed(format!("{problem} (after {time})")));
                }
            }
        }
    }

    /// Returns why the condition of a request does not hold for the latest response; `None` if it holds.
    ///
    /// # Errors
    /// Returns an error if the step fails.
    fn problem(&self, request: &Request) -> std::result::Result<Option<String>, String> {
        if let Some(fails) = &request.fails
            && self.holds(&fails.condition)?
        {
            return Err(self.reason(fails));
        }
        let Some(until) = &request.until else { return Ok(None) };
        Ok(if self.holds(&until.condition)? { None } else { Some(self.reason(until)) })
    }

    /// Returns the reason why a condition holds or does not hold.
    fn reason(&self, condition: &Condition) -> String {
        let text = self.evaluate(&condition.because).ok().and_then(|text| text.as_str().map(str::to_owned));
        text.unwrap_or_else(|| "no reason is known".to_owned())
    }

    fn prepare(&self, base: &Url, request: &Request) -> std::result::Result<ApiRequest, String> {
        let template = request.template().map_err(|error| error.to_string())?;
        let mut prepared = self.evaluate_request(base, &template, request.method)?;
        if request.disk {
            (prepared.content_type, prepared.body) = ("application/octet-stream", disk::image());
        }
        if let Some(accept) = &request.accept {
            prepared.accept.clone_from(accept);
        }
        Ok(prepared)
    }

    /// Evaluates the expressions in the path and the body of a request.
    fn evaluate_request(
        &self,
        base: &Url,
        template: &Template,
        request_method: HttpMethod,
    ) -> std::result::Result<ApiRequest, String> {
        let (values, _) = template.evaluate(&self.scope()).map_err(|(at, error)| format!("{at}: {error}"))?;
        let path = values.get("path").and_then(Value::as_str).unwrap_or_default();
        let body = values.get("body").filter(|body| !body.is_null()).map(|body| body.to_string().into_bytes());
        Ok(ApiRequest {
            method: method(request_method),
            url: join(base, path),
            content_type: JSON,
            accept: JSON.to_owned(),
            body: body.unwrap_or_default(),
        })
    }

    fn scope(&self) -> Scope<'static> {
        let mut variables = Map::new();
        variables.insert("facts".to_owned(), Value::Object(self.facts.clone()));
        Scope::new(variables)
    }

    fn evaluate(&self, expression: &str) -> std::result::Result<Value, String> {
        Expression::lazy(expression).evaluate(&self.scope()).map_err(|error| unreadable(&error))
    }

    fn holds(&self, condition: &str) -> std::result::Result<bool, String> {
        Expression::lazy(condition).evaluate_condition(&self.scope()).map_err(|error| unreadable(&error))
    }

    /// Returns the time at which osdpl stops to wait; `None` if there is no limit.
    fn end(&self) -> Option<Instant> {
        Instant::now().checked_add(self.timeout)
    }

    /// Whether the run has created objects that it has not deleted yet.
    pub(super) fn has_objects(&self) -> bool {
        !self.undo.is_empty()
    }

    /// Deletes what the run has created, the newest object first. Returns a description of each object that may still
    /// exist. If `interrupt` is cancelled, these include the objects that osdpl has not deleted yet.
    pub(super) async fn clean_up(mut self, interrupt: &CancellationToken) -> Vec<String> {
        let end = self.end();
        while let Some(undo) = self.undo.pop() {
            if interrupt.is_cancelled() {
                self.leftovers.push(undo.to_string());
                continue;
            }
            if let Err(problem) = self.delete(&undo, end, interrupt).await {
                self.leftovers.push(format!("{}: {problem}", undo.step));
            }
        }
        self.leftovers
    }

    /// Deletes an object. If the request fails, repeats it, because another object may still use the object.
    async fn delete(
        &mut self,
        undo: &Undo,
        end: Option<Instant>,
        interrupt: &CancellationToken,
    ) -> std::result::Result<(), String> {
        let read = ApiRequest { method: Method::GET, body: Vec::new(), ..undo.request.clone() };
        let mut is_accepted = false;
        loop {
            let request = if is_accepted { &read } else { &undo.request };
            let problem = match self.openstack.send(request).await {
                Ok(response) if !is_accepted && (response.is_success() || response.is_absent()) => {
                    is_accepted = true;
                    let Some(_) = &undo.until else { return Ok(()) };
                    continue;
                }
                Ok(Response { code, content, description }) if is_accepted => {
                    self.facts.insert("code".to_owned(), json!(code));
                    self.facts.insert("answer".to_owned(), content);
                    let is_done = undo.until.as_ref().is_none_or(|until| self.holds(until).unwrap_or_default());
                    if is_done {
                        return Ok(());
                    }
                    format!("{description}: the object still exists")
                }
                Ok(response) => response.description,
                Err(NoResponse::Lost(why)) => why,
                Err(NoResponse::Refused(why)) => return Err(why),
            };
            if pause(end, interrupt).await.is_some() {
                return Err(problem);
            }
        }
    }
}

/// Waits before osdpl repeats a request. Returns a reason if osdpl must not repeat the request.
async fn pause(end: Option<Instant>, interrupt: &CancellationToken) -> Option<Stop> {
    if end.is_some_and(|end| Instant::now() >= end) {
        return Some(Stop::TimeIsOver);
    }
    tokio::select! {
        () = tokio::time::sleep(PAUSE) => None,
        () = interrupt.cancelled() => Some(Stop::Interrupted),
    }
}

fn unreadable(error: &osdpl_values::expr::Error) -> String {
    format!("osdpl can't read the response: {error}; check which program responds at this URL")
}
