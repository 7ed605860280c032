//! Results of API probes.

/// The last probe of a release's API, if it is reachable at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointProbe {
    /// The label `application` of the component that responds.
    pub application: String,
    /// The probed Service.
    pub service: String,
    /// The problem in one line: `GET http://…: 503 Service Unavailable`.
    pub trouble: Option<String>,
}
