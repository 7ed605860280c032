//! Identifiers of workloads.

/// An (application, component) pair as upstream labels its workloads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Component {
    /// The label `application`.
    pub application: String,
    /// The label `component`.
    pub component: String,
}

impl std::fmt::Display for Component {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}/{}", self.application, self.component)
    }
}

impl Component {
    /// Reads `application/component`.
    pub fn parse(text: &str) -> Option<Self> {
        let (application, component) = text.split_once('/')?;
        let whole = !application.is_empty() && !component.is_empty() && !component.contains('/');
        whole.then(|| Self { application: application.into(), component: component.into() })
    }
}
