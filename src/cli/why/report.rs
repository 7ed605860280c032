//! Converts the explanation of `osdpl why` to JSON. The guide's page on health documents the keys for users, so new
//! versions of osdpl may add keys, but never remove them.

use serde::Serialize;

use super::explanation::{Explanation, command};
use osdpl_core::api::CauseObject;
use osdpl_core::cause::{Chain, Link};

/// The JSON form of an explanation.
#[derive(Serialize)]
pub(crate) struct WhyReport<'a> {
    ready: bool,
    lines: &'a [String],
    chains: Vec<ChainJson<'a>>,
    inspect: Vec<ObjectJson<'a>>,
}

/// The chain from an object that is not ready to its root cause.
#[derive(Serialize)]
struct ChainJson<'a> {
    root: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
    stuck: bool,
    links: Vec<LinkJson<'a>>,
}

#[derive(Serialize)]
struct LinkJson<'a> {
    label: &'a str,
    object: &'a CauseObject,
}

/// An object to inspect, and the command that shows it.
#[derive(Serialize)]
struct ObjectJson<'a> {
    #[serde(flatten)]
    object: &'a CauseObject,
    command: String,
}

impl<'a> From<&'a Explanation> for WhyReport<'a> {
    fn from(explanation: &'a Explanation) -> Self {
        let objects =
            explanation.objects_to_inspect().into_iter().map(|object| ObjectJson { object, command: command(object) });
        Self {
            ready: explanation.is_ready(),
            lines: explanation.lines(),
            chains: explanation.chains().iter().map(ChainJson::from).collect(),
            inspect: objects.collect(),
        }
    }
}

impl<'a> From<&'a Chain> for ChainJson<'a> {
    fn from(chain: &'a Chain) -> Self {
        let links = chain.links.iter().map(|Link { label, object }| LinkJson { label, object });
        Self { root: chain.root(), why: chain.why.as_deref(), stuck: chain.stuck, links: links.collect() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_has_the_chain_and_the_commands() {
        let object =
            |kind: &str, name: &str| CauseObject { kind: kind.into(), namespace: "n".into(), name: name.into() };
        let link = |label: &str, object| Link { label: label.into(), object };
        let pod = object("Pod", "db-0");
        let chain = Chain {
            links: vec![link("api", object("Deployment", "api")), link("db", object("StatefulSet", "db"))],
            why: Some("db-0: no image".into()),
            stuck: true,
            inspect: vec![pod],
            release: None,
        };
        let explanation = Explanation::of_pod("n", "api-x", &chain);
        let report = serde_json::to_value(WhyReport::from(&explanation)).unwrap();
        assert_eq!(report["ready"], false);
        assert_eq!(report["lines"][2], "  ← db: db-0: no image");
        let links = json!([
            {"label": "api", "object": {"kind": "Deployment", "namespace": "n", "name": "api"}},
            {"label": "db", "object": {"kind": "StatefulSet", "namespace": "n", "name": "db"}},
        ]);
        assert_eq!(
            report["chains"],
            json!([{"root": "db: db-0: no image", "why": "db-0: no image", "stuck": true, "links": links}])
        );
        let first =
            json!({"kind": "Pod", "namespace": "n", "name": "api-x", "command": "kubectl -n n describe pod api-x"});
        assert_eq!((&report["inspect"][0], report["inspect"].as_array().unwrap().len()), (&first, 4));
    }
}
