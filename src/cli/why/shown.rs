//! The answer for programs. Its shape is in the README: keys are added to it, and none is taken away.

use serde::Serialize;

use super::answer::{Answer, command};
use osdpl_core::api::CauseObject;
use osdpl_core::cause::{Chain, Link};

/// The answer.
#[derive(Serialize)]
pub struct Shown<'a> {
    ready: bool,
    lines: &'a [String],
    chains: Vec<ShownChain<'a>>,
    look: Vec<ShownObject<'a>>,
}

/// From something that is not ready to what is to be mended.
#[derive(Serialize)]
struct ShownChain<'a> {
    root: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
    stuck: bool,
    links: Vec<ShownLink<'a>>,
}

#[derive(Serialize)]
struct ShownLink<'a> {
    label: &'a str,
    object: &'a CauseObject,
}

/// An object to look at, and the command that shows it.
#[derive(Serialize)]
struct ShownObject<'a> {
    #[serde(flatten)]
    object: &'a CauseObject,
    command: String,
}

impl<'a> From<&'a Answer> for Shown<'a> {
    fn from(answer: &'a Answer) -> Self {
        let look = answer.look().into_iter().map(|object| ShownObject { object, command: command(object) });
        Self {
            ready: answer.is_ready(),
            lines: answer.lines(),
            chains: answer.told().iter().map(ShownChain::from).collect(),
            look: look.collect(),
        }
    }
}

impl<'a> From<&'a Chain> for ShownChain<'a> {
    fn from(chain: &'a Chain) -> Self {
        let links = chain.links.iter().map(|Link { label, object }| ShownLink { label, object });
        Self { root: chain.root(), why: chain.why.as_deref(), stuck: chain.stuck, links: links.collect() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_program_is_given_the_chain_and_the_commands() {
        let object =
            |kind: &str, name: &str| CauseObject { kind: kind.into(), namespace: "n".into(), name: name.into() };
        let link = |label: &str, object| Link { label: label.into(), object };
        let pod = object("Pod", "db-0");
        let chain = Chain {
            links: vec![link("api", object("Deployment", "api")), link("db", object("StatefulSet", "db"))],
            why: Some("db-0: no image".into()),
            stuck: true,
            look: vec![pod],
            release: None,
        };
        let answer = Answer::of_pod("n", "api-x", &chain);
        let shown = serde_json::to_value(Shown::from(&answer)).unwrap();
        assert_eq!(shown["ready"], false);
        assert_eq!(shown["lines"][2], "  ← db: db-0: no image");
        let links = json!([
            {"label": "api", "object": {"kind": "Deployment", "namespace": "n", "name": "api"}},
            {"label": "db", "object": {"kind": "StatefulSet", "namespace": "n", "name": "db"}},
        ]);
        assert_eq!(
            shown["chains"],
            json!([{"root": "db: db-0: no image", "why": "db-0: no image", "stuck": true, "links": links}])
        );
        let first =
            json!({"kind": "Pod", "namespace": "n", "name": "api-x", "command": "kubectl -n n describe pod api-x"});
        assert_eq!((&shown["look"][0], shown["look"].as_array().unwrap().len()), (&first, 4));
    }
}
