//! Requests to Nova (Compute API v2.1). All requests use the same microversion, [`VERSION`].

use serde::Deserialize;
use serde_json::json;

use super::call::encode;
use super::{Api, Call, Error, HttpMethod};

/// The microversion of all requests: 2.53 (OpenStack Pike).
///
/// It is the first microversion in which Nova identifies services by UUID. All other features that osdpl uses
/// are older, such as the value `auto` of `block_migration` (2.25).
pub const VERSION: Version = Version { major: 2, minor: 53 };

/// The HTTP header with which a client requests a microversion of Nova's API.
pub const VERSION_HEADER: &str = "X-OpenStack-Nova-API-Version";

/// The maximum number of instances or hypervisors in one response.
const PAGE: usize = 200;

/// A version of Nova's API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The major version.
    pub major: u32,
    /// The minor version, a whole number: version 2.9 is older than version 2.53.
    pub minor: u32,
}

impl std::fmt::Display for Version {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)
    }
}

/// The response in which Nova names the API versions that it supports.
#[derive(Clone, Debug, Deserialize)]
pub struct Versions {
    version: Described,
}

#[derive(Clone, Debug, Deserialize)]
struct Described {
    /// The newest microversion that Nova supports; empty if Nova does not support microversions.
    #[serde(default)]
    version: String,
}

impl Versions {
    /// Checks that Nova supports the microversion `VERSION`, which all requests of osdpl use.
    ///
    /// # Errors
    /// Returns an error if Nova does not support this microversion.
    pub fn check(&self) -> Result<(), Error> {
        let has = &self.version.version;
        let newest = has
            .split_once('.')
            .and_then(|(major, minor)| Some(Version { major: major.parse().ok()?, minor: minor.parse().ok()? }));
        if newest.is_some_and(|newest| newest >= VERSION) {
            return Ok(());
        }
        let has = if has.is_empty() { "2.0".into() } else { has.clone() };
        Err(Error::TooOld { has, wanted: VERSION.to_string() })
    }
}

/// Queries which versions of its API Nova supports.
///
/// osdpl sends a token with this request. Nova itself does not need the token, but upstream's chart configures a WSGI
/// pipeline (`conf.paste`) that requires one.
pub fn versions() -> Call<Versions> {
    Call::get(Api::Compute, "/v2.1/".into())
}

/// The nova-compute service of one host, as Nova reports it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Service {
    /// The service's UUID.
    pub id: String,
    /// The name of the service's host in Nova.
    pub host: String,
    /// `enabled` or `disabled`: whether the scheduler places instances on the service's host.
    pub status: String,
    /// `up` or `down`: whether the service reports regularly to Nova.
    pub state: String,
    /// Why the service is disabled, as the person or program that disabled it stated.
    #[serde(default)]
    pub disabled_reason: Option<String>,
    /// When the service last reported to Nova or was changed, in UTC; the text contains no time zone.
    #[serde(default, rename = "updated_at")]
    pub updated: Option<String>,
}

impl Service {
    /// Whether the scheduler places instances on the service's host.
    pub fn is_enabled(&self) -> bool {
        self.status == "enabled"
    }

    /// Whether the service reports regularly to Nova.
    pub fn is_up(&self) -> bool {
        self.state == "up"
    }
}

/// A response with a list of nova-compute services.
#[derive(Clone, Debug, Deserialize)]
pub struct Services {
    /// The services, in no particular order.
    pub services: Vec<Service>,
}

/// Lists all nova-compute services.
pub fn services() -> Call<Services> {
    Call::get(Api::Compute, "/v2.1/os-services?binary=nova-compute".into())
}

/// Finds the nova-compute service that runs on the Kubernetes node `node`, by the names of the node and of Nova's
/// hosts.
///
/// The function first searches for a host with the same name as the node, because upstream's charts name the host by
/// the output of `hostname --fqdn` on the node (`pod.use_fqdn.compute`, on by default).
///
/// If no host has this name, one of the two names may lack the domain. So the function then compares only the parts
/// before the first dot. A host whose name has a domain matches only if the node's name has no domain. If exactly one
/// host matches, the function returns the service of that host.
///
/// All comparisons ignore case, because kubelets convert names to lower case.
pub fn find_service<'a>(services: &'a [Service], node: &str) -> Option<&'a Service> {
    let first = |name: &str| name.split('.').next().unwrap_or_default().to_lowercase();
    let named = services.iter().find(|service| service.host.eq_ignore_ascii_case(node));
    named.or_else(|| {
        let short = first(node);
        let is_short = |name: &str| name.eq_ignore_ascii_case(&short);
        let mut matching = services.iter().filter(|service| {
            // If both names have a domain, different names belong to different hosts. So ignore the domain only if one
            // of the names has none.
            first(&service.host) == short && (is_short(&service.host) || is_short(node))
        });
        matching.next().filter(|_| matching.next().is_none())
    })
}

/// Disables a nova-compute service, so that Nova places no further instances on its host. Nova limits the reason to 255
/// characters.
pub fn disable(id: &str, reason: &str) -> Call<()> {
    let reason: String = reason.chars().take(255).collect();
    change(id, json!({"status": "disabled", "disabled_reason": reason}))
}

/// Enables a nova-compute service, so that Nova places instances on its host again.
pub fn enable(id: &str) -> Call<()> {
    change(id, json!({"status": "enabled"}))
}

fn change(id: &str, body: serde_json::Value) -> Call<()> {
    Call::act(Api::Compute, HttpMethod::Put, format!("/v2.1/os-services/{}", encode(id)), Some(body))
}

/// Deletes a nova-compute service, and the mapping of its host to a cell.
///
/// While the host has instances, Nova refuses the request with HTTP 409.
pub fn delete_service(id: &str) -> Call<()> {
    Call::act(Api::Compute, HttpMethod::Delete, format!("/v2.1/os-services/{}", encode(id)), None)
}

/// An instance: a virtual machine that Nova runs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Server {
    /// The instance's UUID.
    pub id: String,
    /// The instance's name.
    #[serde(default)]
    pub name: String,
    /// The instance's status: `ACTIVE`, `MIGRATING`, `SHUTOFF`, `ERROR` …
    pub status: String,
    /// The current task of Nova for the instance, such as `migrating`.
    #[serde(default, rename = "OS-EXT-STS:task_state")]
    pub task: Option<String>,
}

/// A response with one page of instances.
#[derive(Clone, Debug, Deserialize)]
pub struct Servers {
    /// The instances, the newest first.
    pub servers: Vec<Server>,
    #[serde(default)]
    servers_links: Vec<Link>,
}

#[derive(Clone, Debug, Deserialize)]
struct Link {
    rel: String,
}

impl Servers {
    /// Returns the UUID of the last instance on this page, after which the next page starts; `None` on the last page.
    ///
    /// The function does not return the link to the next page from Nova's response: the link points to Nova's public
    /// endpoint, but osdpl uses the endpoint inside of the Kubernetes cluster.
    pub fn next(&self) -> Option<&str> {
        let more = self.servers_links.iter().any(|link| link.rel == "next");
        self.servers.last().filter(|_| more).map(|server| server.id.as_str())
    }
}

/// Lists one page of the instances of all projects on a host, starting after the instance `after`.
pub fn servers(host: &str, after: Option<&str>) -> Call<Servers> {
    let marker = after.map(|id| format!("&marker={}", encode(id))).unwrap_or_default();
    let path = format!("/v2.1/servers/detail?all_tenants=1&host={}&limit={PAGE}{marker}", encode(host));
    Call::get(Api::Compute, path)
}

/// Queries whether the cloud has any instance. The response contains at most one instance, whatever its project.
pub fn any_server() -> Call<Servers> {
    Call::get(Api::Compute, "/v2.1/servers/detail?all_tenants=1&limit=1".into())
}

/// Starts the live migration of an instance to a host that Nova's scheduler chooses. Nova accepts the request at once
/// and migrates the instance in the background.
pub fn live_migrate(id: &str) -> Call<()> {
    let body = json!({"os-migrateLive": {"host": null, "block_migration": "auto"}});
    Call::act(Api::Compute, HttpMethod::Post, format!("/v2.1/servers/{}/action", encode(id)), Some(body))
}

/// A migration of an instance between hosts.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Migration {
    /// The migration's number. A later migration has a higher number.
    pub id: i64,
    /// The UUID of the instance that moves.
    #[serde(rename = "instance_uuid")]
    pub server: String,
    /// The migration's status: `queued`, `preparing`, `running`, `completed`, `error`, `failed`, `cancelled` …
    pub status: String,
    /// The host that the instance moves to; `None` until the scheduler has chosen it.
    #[serde(default, rename = "dest_compute")]
    pub destination: Option<String>,
}

impl Migration {
    /// Whether the migration failed or was cancelled.
    pub fn has_failed(&self) -> bool {
        ["error", "failed", "cancelled"].contains(&self.status.as_str())
    }

    /// Whether the migration is in progress: it has neither completed nor failed.
    pub fn is_running(&self) -> bool {
        !self.has_failed()
            && !["completed", "done", "finished", "confirmed", "reverted"].contains(&self.status.as_str())
    }
}

/// A response with a list of migrations.
#[derive(Clone, Debug, Deserialize)]
pub struct Migrations {
    /// The migrations, in no particular order.
    pub migrations: Vec<Migration>,
}

/// Lists the live migrations away from a host, including finished migrations.
pub fn migrations(host: &str) -> Call<Migrations> {
    let path = format!("/v2.1/os-migrations?migration_type=live-migration&source_compute={}", encode(host));
    Call::get(Api::Compute, path)
}

/// Lists all migrations to or from a host, including cold migrations and evacuations.
///
/// A caller that needs only the migrations to the host must filter the response, because Nova cannot filter by the
/// destination alone.
pub fn moves(host: &str) -> Call<Migrations> {
    Call::get(Api::Compute, format!("/v2.1/os-migrations?host={}", encode(host)))
}

/// A response with one instance.
#[derive(Clone, Debug, Deserialize)]
pub struct ServerResponse {
    /// The instance.
    pub server: Server,
}

/// Queries one instance by its UUID, in whichever project it is.
pub fn server(id: &str) -> Call<ServerResponse> {
    Call::get(Api::Compute, format!("/v2.1/servers/{}", encode(id)))
}

/// A hypervisor of Nova. Nova lists a hypervisor only after the hypervisor's host is mapped to a cell.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Hypervisor {
    /// The hypervisor's UUID.
    pub id: String,
    /// The hypervisor's name in libvirt, usually the fully qualified name of its host.
    #[serde(rename = "hypervisor_hostname")]
    pub name: String,
    /// The nova-compute service that manages the hypervisor.
    pub service: HypervisorService,
}

/// The nova-compute service that manages a hypervisor.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct HypervisorService {
    /// The name of the service's host in Nova.
    pub host: String,
}

/// A response with one page of hypervisors.
#[derive(Clone, Debug, Deserialize)]
pub struct Hypervisors {
    /// The hypervisors, in no particular order.
    pub hypervisors: Vec<Hypervisor>,
    #[serde(default)]
    hypervisors_links: Vec<Link>,
}

impl Hypervisors {
    /// Returns the UUID of the last hypervisor on this page, after which the next page starts; `None` on the last page.
    pub fn next(&self) -> Option<&str> {
        let more = self.hypervisors_links.iter().any(|link| link.rel == "next");
        self.hypervisors.last().filter(|_| more).map(|hypervisor| hypervisor.id.as_str())
    }
}

/// Lists one page of the hypervisors, starting after the hypervisor `after`. Nova returns this list in pages since
/// microversion 2.33.
pub fn hypervisors(after: Option<&str>) -> Call<Hypervisors> {
    let marker = after.map(|id| format!("&marker={}", encode(id))).unwrap_or_default();
    Call::get(Api::Compute, format!("/v2.1/os-hypervisors/detail?limit={PAGE}{marker}"))
}
