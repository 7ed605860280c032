//! What services' APIs answer.

/// What the API of a release answered last, where it can be reached at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointSeen {
    /// The label `application` of the component that answers.
    pub application: String,
    /// The Service that was asked.
    pub service: String,
    /// What is wrong with the answer, in one line: `GET http://…: 503 Service Unavailable`.
    pub trouble: Option<String>,
}
