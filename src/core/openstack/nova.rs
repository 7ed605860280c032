//! Requests to Nova (Compute API v2.1). All requests use one microversion, the first that identifies services by UUID.

use serde::Deserialize;
use serde_json::json;

use super::call::encode;
use super::{Api, Call, Error, HttpMethod};

/// The microversion (2.53, OpenStack Pike): services by UUID, and `block_migration: auto` (2.25).
pub const VERSION: Version = Version { major: 2, minor: 53 };

/// The header with the microversion (API guide: microversions).
pub const VERSION_HEADER: &str = "X-OpenStack-Nova-API-Version";

/// The page size of instances and hypervisors.
const PAGE: usize = 200;

/// An API version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The major version.
    pub major: u32,
    /// The minor version: 2.9 is older than 2.53.
    pub minor: u32,
}

impl std::fmt::Display for Version {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)
    }
}

/// The versions of Nova's API.
#[derive(Clone, Debug, Deserialize)]
pub struct Versions {
    version: Described,
}

#[derive(Clone, Debug, Deserialize)]
struct Described {
    /// The newest microversion; empty if microversions are not supported.
    #[serde(default)]
    version: String,
}

impl Versions {
    /// Checks that the required version is supported.
    ///
    /// # Errors
    /// The version is too old.
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

/// Queries the supported versions. Nova needs no token for it, but the pipeline of upstream's chart (`conf.paste`)
/// does.
pub fn versions() -> Call<Versions> {
    Call::get(Api::Compute, "/v2.1/".into())
}

/// A nova-compute service.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Service {
    /// Its UUID.
    pub id: String,
    /// The host name in Nova.
    pub host: String,
    /// `enabled` or `disabled`: whether the scheduler uses it.
    pub status: String,
    /// `up` or `down`: whether it reports regularly.
    pub state: String,
    /// Why it is disabled.
    #[serde(default)]
    pub disabled_reason: Option<String>,
    /// When it last reported or changed; UTC without a time zone.
    #[serde(default, rename = "updated_at")]
    pub updated: Option<String>,
}

impl Service {
    /// Whether the scheduler uses it.
    pub fn is_enabled(&self) -> bool {
        self.status == "enabled"
    }

    /// Whether it reports regularly.
    pub fn is_up(&self) -> bool {
        self.state == "up"
    }
}

/// A list of services.
#[derive(Clone, Debug, Deserialize)]
pub struct Services {
    /// The services, unordered.
    pub services: Vec<Service>,
}

/// Lists all nova-compute services.
pub fn services() -> Call<Services> {
    Call::get(Api::Compute, "/v2.1/os-services?binary=nova-compute".into())
}

/// Finds the nova-compute of a node.
///
/// Upstream's charts use the node's `hostname --fqdn` as host name (`pod.use_fqdn.compute`, the default). Without a
/// host of the node's name, the only host with the same first label is used. The case is ignored, because kubelets
/// convert names to lower case.
pub fn find_service<'a>(services: &'a [Service], node: &str) -> Option<&'a Service> {
    let first = |name: &str| name.split('.').next().unwrap_or_default().to_lowercase();
    let named = services.iter().find(|service| service.host.eq_ignore_ascii_case(node));
    named.or_else(|| {
        let short = first(node);
        let is_short = |name: &str| name.eq_ignore_ascii_case(&short);
        let mut matching = services.iter().filter(|service| {
            // Two different full names do not match.
            first(&service.host) == short && (is_short(&service.host) || is_short(node))
        });
        matching.next().filter(|_| matching.next().is_none())
    })
}

/// Disables a nova-compute for the scheduler, with the reason (limited to 255 characters by Nova).
pub fn disable(id: &str, reason: &str) -> Call<()> {
    let reason: String = reason.chars().take(255).collect();
    change(id, json!({"status": "disabled", "disabled_reason": reason}))
}

/// Enables a nova-compute for the scheduler.
pub fn enable(id: &str) -> Call<()> {
    change(id, json!({"status": "enabled"}))
}

fn change(id: &str, body: serde_json::Value) -> Call<()> {
    Call::act(Api::Compute, HttpMethod::Put, format!("/v2.1/os-services/{}", encode(id)), Some(body))
}

/// Deletes a nova-compute and its host mapping. Nova refuses with 409 while it has instances.
pub fn delete_service(id: &str) -> Call<()> {
    Call::act(Api::Compute, HttpMethod::Delete, format!("/v2.1/os-services/{}", encode(id)), None)
}

/// An instance.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Server {
    /// Its UUID.
    pub id: String,
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// `ACTIVE`, `MIGRATING`, `SHUTOFF`, `ERROR` …
    pub status: String,
    /// The current task.
    #[serde(default, rename = "OS-EXT-STS:task_state")]
    pub task: Option<String>,
}

/// A page of instances.
#[derive(Clone, Debug, Deserialize)]
pub struct Servers {
    /// The instances, in order of creation.
    pub servers: Vec<Server>,
    #[serde(default)]
    servers_links: Vec<Link>,
}

#[derive(Clone, Debug, Deserialize)]
struct Link {
    rel: String,
}

impl Servers {
    /// Returns the marker of the next page. The link itself refers to the public endpoint.
    pub fn next(&self) -> Option<&str> {
        let more = self.servers_links.iter().any(|link| link.rel == "next");
        self.servers.last().filter(|_| more).map(|server| server.id.as_str())
    }
}

/// Lists a page of the instances on a host, of all projects, starting after `after`.
pub fn servers(host: &str, after: Option<&str>) -> Call<Servers> {
    let marker = after.map(|id| format!("&marker={}", encode(id))).unwrap_or_default();
    let path = format!("/v2.1/servers/detail?all_tenants=1&host={}&limit={PAGE}{marker}", encode(host));
    Call::get(Api::Compute, path)
}

/// Starts a live migration to a host that the scheduler chooses. Nova accepts it at once and runs it in the background.
pub fn live_migrate(id: &str) -> Call<()> {
    let body = json!({"os-migrateLive": {"host": null, "block_migration": "auto"}});
    Call::act(Api::Compute, HttpMethod::Post, format!("/v2.1/servers/{}/action", encode(id)), Some(body))
}

/// A migration of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Migration {
    /// An increasing number.
    pub id: i64,
    /// The instance's UUID.
    #[serde(rename = "instance_uuid")]
    pub server: String,
    /// `queued`, `preparing`, `running`, `completed`, `error`, `failed`, `cancelled` …
    pub status: String,
    /// The destination host, once it is chosen.
    #[serde(default, rename = "dest_compute")]
    pub destination: Option<String>,
}

impl Migration {
    /// Whether it failed.
    pub fn has_failed(&self) -> bool {
        ["error", "failed", "cancelled"].contains(&self.status.as_str())
    }

    /// Whether it is in progress.
    pub fn is_running(&self) -> bool {
        !self.has_failed()
            && !["completed", "done", "finished", "confirmed", "reverted"].contains(&self.status.as_str())
    }
}

/// A list of migrations.
#[derive(Clone, Debug, Deserialize)]
pub struct Migrations {
    /// The migrations, unordered.
    pub migrations: Vec<Migration>,
}

/// Lists the live migrations away from a host, including past ones.
pub fn migrations(host: &str) -> Call<Migrations> {
    let path = format!("/v2.1/os-migrations?migration_type=live-migration&source_compute={}", encode(host));
    Call::get(Api::Compute, path)
}

/// Lists all migrations to or from a host, including cold ones and evacuations. Nova cannot filter by destination only.
pub fn moves(host: &str) -> Call<Migrations> {
    Call::get(Api::Compute, format!("/v2.1/os-migrations?host={}", encode(host)))
}

/// A response with one instance.
#[derive(Clone, Debug, Deserialize)]
pub struct ServerResponse {
    /// The instance.
    pub server: Server,
}

/// Queries one instance of any project.
pub fn server(id: &str) -> Call<ServerResponse> {
    Call::get(Api::Compute, format!("/v2.1/servers/{}", encode(id)))
}

/// A hypervisor. Nova lists only those of hosts that are mapped to a cell.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Hypervisor {
    /// Its UUID.
    pub id: String,
    /// Its name in libvirt, usually the full host name.
    #[serde(rename = "hypervisor_hostname")]
    pub name: String,
    /// Its nova-compute.
    pub service: HypervisorService,
}

/// The nova-compute of a hypervisor.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct HypervisorService {
    /// The host name in Nova.
    pub host: String,
}

/// A page of hypervisors.
#[derive(Clone, Debug, Deserialize)]
pub struct Hypervisors {
    /// The hypervisors, unordered.
    pub hypervisors: Vec<Hypervisor>,
    #[serde(default)]
    hypervisors_links: Vec<Link>,
}

impl Hypervisors {
    /// Returns the marker of the next page.
    pub fn next(&self) -> Option<&str> {
        let more = self.hypervisors_links.iter().any(|link| link.rel == "next");
        self.hypervisors.last().filter(|_| more).map(|hypervisor| hypervisor.id.as_str())
    }
}

/// Lists a page of hypervisors, starting after `after` (microversion 2.33).
pub fn hypervisors(after: Option<&str>) -> Call<Hypervisors> {
    let marker = after.map(|id| format!("&marker={}", encode(id))).unwrap_or_default();
    Call::get(Api::Compute, format!("/v2.1/os-hypervisors/detail?limit={PAGE}{marker}"))
}
