//! Nova (Compute API v2.1). Everything is asked in one microversion, the first in which services are known by UUID.

use serde::Deserialize;
use serde_json::json;

use super::call::escaped;
use super::{Api, Call, Error, Verb};

/// The microversion that is spoken (2.53, OpenStack Pike): services by UUID, and with it what came before, `block_migration: auto` (2.25).
pub const VERSION: Version = Version { major: 2, minor: 53 };

/// The header that names it (API guide: microversions).
pub const VERSION_HEADER: &str = "X-OpenStack-Nova-API-Version";

/// How many instances, or hypervisors, a page has.
const PAGE: usize = 200;

/// A version of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// Before the dot.
    pub major: u32,
    /// After it: 2.9 is older than 2.53.
    pub minor: u32,
}

impl std::fmt::Display for Version {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)
    }
}

/// What Nova says of its API.
#[derive(Clone, Debug, Deserialize)]
pub struct Versions {
    version: Described,
}

#[derive(Clone, Debug, Deserialize)]
struct Described {
    /// The newest microversion; empty before there were any.
    #[serde(default)]
    version: String,
}

impl Versions {
    /// Whether it speaks what is needed.
    ///
    /// # Errors
    /// When it is too old.
    pub fn suffice(&self) -> Result<(), Error> {
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

/// Which versions it speaks. Nova itself tells that to anyone, but the pipeline of upstream's chart (`conf.paste`) wants a token for it as well.
pub fn versions() -> Call<Versions> {
    Call::get(Api::Compute, "/v2.1/".into())
}

/// A nova-compute.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Service {
    /// Its UUID.
    pub id: String,
    /// What nova calls the host.
    pub host: String,
    /// `enabled` or `disabled`: whether the scheduler gives it instances.
    pub status: String,
    /// `up` or `down`: whether it is heard of.
    pub state: String,
    /// Why it is disabled, in the words of who did it.
    #[serde(default)]
    pub disabled_reason: Option<String>,
    /// When it was heard of last, or changed; UTC without saying so.
    #[serde(default, rename = "updated_at")]
    pub updated: Option<String>,
}

impl Service {
    /// Whether the scheduler gives it instances.
    pub fn is_enabled(&self) -> bool {
        self.status == "enabled"
    }

    /// Whether it is heard of.
    pub fn is_up(&self) -> bool {
        self.state == "up"
    }
}

/// All of them.
#[derive(Clone, Debug, Deserialize)]
pub struct Services {
    /// In no order.
    pub services: Vec<Service>,
}

/// Every nova-compute.
pub fn services() -> Call<Services> {
    Call::get(Api::Compute, "/v2.1/os-services?binary=nova-compute".into())
}

/// The nova-compute of a node. Upstream's charts call a host what `hostname --fqdn` says on the node (`pod.use_fqdn.compute`, the default), so where
/// no host has the node's own name it is the only one whose first label is the node's.
///
/// A kubelet writes its node's name in small letters, `hostname` does not.
pub fn of_node<'a>(services: &'a [Service], node: &str) -> Option<&'a Service> {
    let first = |name: &str| name.split('.').next().unwrap_or_default().to_lowercase();
    let named = services.iter().find(|service| service.host.eq_ignore_ascii_case(node));
    named.or_else(|| {
        let short = first(node);
        let is_short = |name: &str| name.eq_ignore_ascii_case(&short);
        let mut alike = services.iter().filter(|service| {
            // Of two full names none stands for the other.
            first(&service.host) == short && (is_short(&service.host) || is_short(node))
        });
        alike.next().filter(|_| alike.next().is_none())
    })
}

/// Takes a nova-compute out of the scheduler's choice, and says why (Nova keeps 255 characters).
pub fn disable(id: &str, reason: &str) -> Call<()> {
    let reason: String = reason.chars().take(255).collect();
    change(id, json!({"status": "disabled", "disabled_reason": reason}))
}

/// Gives a nova-compute back to the scheduler.
pub fn enable(id: &str) -> Call<()> {
    change(id, json!({"status": "enabled"}))
}

fn change(id: &str, body: serde_json::Value) -> Call<()> {
    Call::act(Api::Compute, Verb::Put, format!("/v2.1/os-services/{}", escaped(id)), Some(body))
}

/// Forgets a nova-compute and its host's mapping; refused with 409 while there are instances.
pub fn forget(id: &str) -> Call<()> {
    Call::act(Api::Compute, Verb::Delete, format!("/v2.1/os-services/{}", escaped(id)), None)
}

/// An instance.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Server {
    /// Its UUID.
    pub id: String,
    /// What its owner calls it.
    #[serde(default)]
    pub name: String,
    /// `ACTIVE`, `MIGRATING`, `SHUTOFF`, `ERROR` …
    pub status: String,
    /// What is being done with it now.
    #[serde(default, rename = "OS-EXT-STS:task_state")]
    pub task: Option<String>,
}

/// A page of instances.
#[derive(Clone, Debug, Deserialize)]
pub struct Servers {
    /// In the order of their making.
    pub servers: Vec<Server>,
    #[serde(default)]
    servers_links: Vec<Link>,
}

#[derive(Clone, Debug, Deserialize)]
struct Link {
    rel: String,
}

impl Servers {
    /// After which instance the next page begins; the link itself leads to the public endpoint.
    pub fn next(&self) -> Option<&str> {
        let more = self.servers_links.iter().any(|link| link.rel == "next");
        self.servers.last().filter(|_| more).map(|server| server.id.as_str())
    }
}

/// The instances on a host, whoever owns them: a page of them, after this one.
pub fn servers(host: &str, after: Option<&str>) -> Call<Servers> {
    let marker = after.map(|id| format!("&marker={}", escaped(id))).unwrap_or_default();
    let path = format!("/v2.1/servers/detail?all_tenants=1&host={}&limit={PAGE}{marker}", escaped(host));
    Call::get(Api::Compute, path)
}

/// Moves an instance elsewhere while it runs; the scheduler chooses where. It is taken at once, and done later.
pub fn live_migrate(id: &str) -> Call<()> {
    let body = json!({"os-migrateLive": {"host": null, "block_migration": "auto"}});
    Call::act(Api::Compute, Verb::Post, format!("/v2.1/servers/{}/action", escaped(id)), Some(body))
}

/// A move of an instance, past or present.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Migration {
    /// Counts up.
    pub id: i64,
    /// Whose.
    #[serde(rename = "instance_uuid")]
    pub server: String,
    /// `queued`, `preparing`, `running`, `completed`, `error`, `failed`, `cancelled` …
    pub status: String,
    /// The host that it leads to, once one is chosen.
    #[serde(default, rename = "dest_compute")]
    pub destination: Option<String>,
}

impl Migration {
    /// Whether it came to nothing.
    pub fn has_failed(&self) -> bool {
        ["error", "failed", "cancelled"].contains(&self.status.as_str())
    }

    /// Whether it has not ended.
    pub fn is_running(&self) -> bool {
        !self.has_failed()
            && !["completed", "done", "finished", "confirmed", "reverted"].contains(&self.status.as_str())
    }
}

/// Moves of instances.
#[derive(Clone, Debug, Deserialize)]
pub struct Migrations {
    /// In no order.
    pub migrations: Vec<Migration>,
}

/// The live migrations away from a host, those in progress and those of the past that Nova has a record of.
pub fn migrations(host: &str) -> Call<Migrations> {
    let path = format!("/v2.1/os-migrations?migration_type=live-migration&source_compute={}", escaped(host));
    Call::get(Api::Compute, path)
}

/// The moves of instances to or from a host, cold ones and evacuations included: Nova filters by no destination alone.
pub fn moves(host: &str) -> Call<Migrations> {
    Call::get(Api::Compute, format!("/v2.1/os-migrations?host={}", escaped(host)))
}

/// An instance by its UUID.
#[derive(Clone, Debug, Deserialize)]
pub struct One {
    /// It.
    pub server: Server,
}

/// One instance, whoever owns it.
pub fn server(id: &str) -> Call<One> {
    Call::get(Api::Compute, format!("/v2.1/servers/{}", escaped(id)))
}

/// A hypervisor of a host that is mapped into a cell: others are not told.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Hypervisor {
    /// Its UUID.
    pub id: String,
    /// What libvirt calls it: mostly the host's full name.
    #[serde(rename = "hypervisor_hostname")]
    pub name: String,
    /// Its nova-compute.
    pub service: HypervisorService,
}

/// The nova-compute of a hypervisor.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct HypervisorService {
    /// What nova calls the host.
    pub host: String,
}

/// A page of hypervisors.
#[derive(Clone, Debug, Deserialize)]
pub struct Hypervisors {
    /// In no order that means anything.
    pub hypervisors: Vec<Hypervisor>,
    #[serde(default)]
    hypervisors_links: Vec<Link>,
}

impl Hypervisors {
    /// After which hypervisor the next page begins.
    pub fn next(&self) -> Option<&str> {
        let more = self.hypervisors_links.iter().any(|link| link.rel == "next");
        self.hypervisors.last().filter(|_| more).map(|hypervisor| hypervisor.id.as_str())
    }
}

/// The hypervisors of hosts that are mapped into a cell: a page of them, after this one (2.33; each is told with some kilobytes about its CPU).
pub fn hypervisors(after: Option<&str>) -> Call<Hypervisors> {
    let marker = after.map(|id| format!("&marker={}", escaped(id))).unwrap_or_default();
    Call::get(Api::Compute, format!("/v2.1/os-hypervisors/detail?limit={PAGE}{marker}"))
}
