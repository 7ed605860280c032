use super::ReleaseKey;

/// The contents of the container images that pods of one workload run. If pods of a workload run different contents,
/// there are several of these values for the workload.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunningImages {
    /// The namespace and name of the helm release, from the label `release_group` of the pods.
    pub release: ReleaseKey,
    /// The name of the workload that owns the pods.
    pub workload: String,
    /// The images of the pods' containers: the name with the tag from the pods' spec, and the digest of the content that
    /// runs (`sha256:…`). Leaves out the images whose name contains a digest, because their content can't change.
    pub images: Vec<(String, String)>,
}
