//! Requests to Neutron (Networking API v2.0).

use serde::Deserialize;

use super::call::encode;
use super::{Api, Call, HttpMethod};

/// An agent, including OVN controllers.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Agent {
    /// Its UUID.
    pub id: String,
    /// `Open vSwitch agent`, `OVN Controller agent` …
    #[serde(rename = "agent_type")]
    pub kind: String,
    /// The host name in Neutron.
    pub host: String,
    /// Whether it reports regularly.
    pub alive: bool,
    /// Whether it is administratively enabled.
    #[serde(rename = "admin_state_up")]
    pub enabled: bool,
    /// When it last reported; UTC without a time zone.
    #[serde(default, rename = "heartbeat_timestamp")]
    pub heard: Option<String>,
}

/// A list of agents.
#[derive(Clone, Debug, Deserialize)]
pub struct Agents {
    /// The agents, unordered.
    pub agents: Vec<Agent>,
}

/// Returns the agents of a host. Neutron and Nova use the same host name, because ports are bound by it.
pub fn agents(host: &str) -> Call<Agents> {
    Call::get(Api::Network, format!("/v2.0/agents?host={}", encode(host)))
}

/// Deletes an agent. A running agent registers itself again.
pub fn delete_agent(id: &str) -> Call<()> {
    Call::act(Api::Network, HttpMethod::Delete, format!("/v2.0/agents/{}", encode(id)), None)
}
