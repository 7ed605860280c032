//! Requests to Neutron (Networking API v2.0).

use serde::Deserialize;

use super::call::encode;
use super::{Api, Call, HttpMethod};

/// A Neutron agent. Neutron also lists OVN controllers as agents.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Agent {
    /// The agent's UUID.
    pub id: String,
    /// The agent's type: `Open vSwitch agent`, `OVN Controller agent` …
    #[serde(rename = "agent_type")]
    pub kind: String,
    /// The name of the agent's host in Neutron.
    pub host: String,
    /// Whether the agent reports regularly to Neutron.
    pub alive: bool,
    /// Whether the administrator allows Neutron to use the agent.
    #[serde(rename = "admin_state_up")]
    pub enabled: bool,
    /// When the agent last reported to Neutron, in UTC; the text contains no time zone.
    #[serde(default, rename = "heartbeat_timestamp")]
    pub heard: Option<String>,
}

/// A response with a list of agents.
#[derive(Clone, Debug, Deserialize)]
pub struct Agents {
    /// The agents that Neutron lists, in no particular order.
    pub agents: Vec<Agent>,
}

/// Lists the Neutron agents on the host `host`.
///
/// A host must have the same name in Neutron as in Nova, because Neutron binds an instance's ports to the host that
/// Nova names.
pub fn agents(host: &str) -> Call<Agents> {
    Call::get(Api::Network, format!("/v2.0/agents?host={}", encode(host)))
}

/// Deletes an agent from Neutron. If the agent's program still runs, it registers the agent again.
pub fn delete_agent(id: &str) -> Call<()> {
    Call::act(Api::Network, HttpMethod::Delete, format!("/v2.0/agents/{}", encode(id)), None)
}
