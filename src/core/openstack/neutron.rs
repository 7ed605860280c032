//! Neutron (Networking API v2.0).

use serde::Deserialize;

use super::call::escaped;
use super::{Api, Call, Verb};

/// An agent, OVN's controllers included.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Agent {
    /// Its UUID.
    pub id: String,
    /// `Open vSwitch agent`, `OVN Controller agent` …
    #[serde(rename = "agent_type")]
    pub kind: String,
    /// What neutron calls the host.
    pub host: String,
    /// Whether it is heard of.
    pub alive: bool,
    /// Whether its administrator wants it to work.
    #[serde(rename = "admin_state_up")]
    pub enabled: bool,
    /// When it was heard of last; UTC without saying so.
    #[serde(default, rename = "heartbeat_timestamp")]
    pub heard: Option<String>,
}

/// Agents.
#[derive(Clone, Debug, Deserialize)]
pub struct Agents {
    /// In no order.
    pub agents: Vec<Agent>,
}

/// The agents of a host, by the name that nova has for it too: ports are bound by it.
pub fn agents(host: &str) -> Call<Agents> {
    Call::get(Api::Network, format!("/v2.0/agents?host={}", escaped(host)))
}

/// Forgets an agent; one that lives comes back by itself.
pub fn forget(id: &str) -> Call<()> {
    Call::act(Api::Network, Verb::Delete, format!("/v2.0/agents/{}", escaped(id)), None)
}
