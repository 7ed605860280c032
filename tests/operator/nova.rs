//! Fake APIs of Nova and Neutron. A test sets the hosts and instances that the APIs report, and checks the changes that
//! osdpl requested from Nova.

mod api;

use std::sync::Mutex;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::canaries::collect::TOKEN;
use api::{ApiResponse, HOST, OK, TASK, fault, find};

/// The outcome of a live migration that osdpl requests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum MigrationOutcome {
    /// Nova completes the migration before it responds to the request.
    #[default]
    Immediate,
    /// The migration completes when the test calls [`Nova::release`].
    Delayed,
    /// The migration has already failed when Nova responds to the request. The instance stays on its host.
    Failed,
}

/// An HTTP request to the fake Nova or Neutron. All fields except the body are in lower case.
pub struct ApiRequest<'a> {
    pub service: &'a str,
    pub verb: &'a str,
    pub path: &'a str,
    pub token: &'a str,
    pub version: &'a str,
    pub body: &'a Value,
}

/// The fake APIs of Nova and Neutron, with the hosts and instances that they report.
pub struct Nova {
    state: Mutex<State>,
    /// Every change that osdpl requested from Nova, oldest first, such as `put os-services/compute-n1 disabled`.
    log: watch::Sender<Vec<String>>,
}

struct State {
    newest: (u32, u32),
    token: u64,
    token_lifetime: SignedDuration,
    migration_outcome: MigrationOutcome,
    services: Vec<Value>,
    servers: Vec<Value>,
    migrations: Vec<Value>,
    /// Whether the fake Nova responds to every change with status 500. Tests set it with [`Nova::set_broken`].
    broken: bool,
    /// The names of hosts that are mapped to no cell.
    unmapped: Vec<String>,
    agents: Vec<Value>,
    /// The maximum number of objects in one page of a response. The fake API uses this number instead of the `limit`
    /// that the client requests.
    page: usize,
    reads: u64,
}

impl State {
    fn valid_token(&self) -> String {
        format!("{TOKEN}-{}", self.token)
    }
}

impl Default for Nova {
    fn default() -> Self {
        let state = State {
            newest: (2, 96),
            token: 1,
            token_lifetime: SignedDuration::from_hours(1),
            migration_outcome: MigrationOutcome::Immediate,
            services: Vec::new(),
            servers: Vec::new(),
            migrations: Vec::new(),
            broken: false,
            unmapped: Vec::new(),
            agents: Vec::new(),
            page: 2,
            reads: 0,
        };
        Self { state: Mutex::new(state), log: watch::Sender::default() }
    }
}

impl Nova {
    /// Locks the state of the fake APIs and calls `change` with it.
    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap())
    }

    /// Adds a compute host: an enabled nova-compute service that is up, and a Neutron agent that is alive.
    pub fn add_compute(&self, host: &str) {
        let service = json!({"id": format!("compute-{host}"), "binary": "nova-compute", "host": host, "zone": "nova",
            "status": "enabled", "state": "up", "disabled_reason": null, "forced_down": false});
        let agent = json!({"id": format!("agent-{host}"), "agent_type": "Open vSwitch agent", "host": host,
            "binary": "neutron-openvswitch-agent", "alive": true, "admin_state_up": true});
        self.with(|state| {
            state.services.push(service);
            state.agents.push(agent);
        });
    }

    /// Adds a compute host that is not mapped to a cell yet. Nova does not list the hypervisor of such a host.
    pub fn add_unmapped_compute(&self, host: &str) {
        self.add_compute(host);
        self.with(|state| state.unmapped.push(host.to_owned()));
    }

    /// Maps all hosts to a cell, as `nova-manage cell_v2 discover_hosts` does, so that Nova lists their hypervisors.
    pub fn discover(&self) {
        self.with(|state| state.unmapped.clear());
    }

    /// Sets whether the fake Nova responds to every change with status 500.
    pub fn set_broken(&self, broken: bool) {
        self.with(|state| state.broken = broken);
    }

    /// Adds an instance on a host.
    pub fn add_server(&self, host: &str, id: &str, status: &str) {
        let server = json!({"id": id, "name": format!("{id}-name"), "status": status, HOST: host, TASK: null});
        self.with(|state| state.servers.push(server));
    }

    /// Removes an instance, as if a user had deleted it.
    pub fn remove_server(&self, id: &str) {
        self.with(|state| state.servers.retain(|server| server["id"] != id));
    }

    /// Returns the host of an instance; empty if there is no such instance.
    pub fn host_of(&self, id: &str) -> String {
        let of = |state: &mut State| find(&mut state.servers, id).map(|server| server[HOST].clone());
        self.with(of).and_then(|host| host.as_str().map(str::to_owned)).unwrap_or_default()
    }

    /// Sets the outcome of the live migrations that osdpl requests after this call.
    pub fn set_migration_outcome(&self, outcome: MigrationOutcome) {
        self.with(|state| state.migration_outcome = outcome);
    }

    /// Starts a live migration of an instance to `host`. The migration completes when the test calls [`Nova::release`].
    pub fn start_migration(&self, id: &str, host: &str) {
        self.with(|state| state.start_migration(id, host));
    }

    /// Completes the migration of this instance.
    pub fn release(&self, id: &str) {
        self.with(|state| state.complete_migration(id));
    }

    /// Sets a field of the host's nova-compute service, such as `status`, `state` or `disabled_reason`.
    pub fn set_service(&self, host: &str, field: &str, value: Value) {
        self.with(|state| find(&mut state.services, &format!("compute-{host}")).unwrap()[field] = value);
    }

    /// Returns whether the host's nova-compute service is enabled, and the reason why it is disabled. The reason is
    /// empty if there is none.
    pub fn service(&self, host: &str) -> (bool, String) {
        self.with(|state| {
            let service = find(&mut state.services, &format!("compute-{host}")).unwrap();
            (service["status"] == "enabled", service["disabled_reason"].as_str().unwrap_or_default().to_owned())
        })
    }

    /// Sets whether Neutron reports the host's agent as alive.
    pub fn set_agent(&self, host: &str, alive: bool) {
        self.with(|state| find(&mut state.agents, &format!("agent-{host}")).unwrap()["alive"] = alive.into());
    }

    /// Sets the newest microversion of the compute API to `2.minor`.
    pub fn set_api_version(&self, minor: u32) {
        self.with(|state| state.newest = (2, minor));
    }

    /// Invalidates all tokens. A request with an invalid token gets status 401.
    pub fn expire(&self) {
        self.with(|state| state.token += 1);
    }

    /// Sets the lifetime of tokens that Keystone issues from now on.
    pub fn set_token_lifetime(&self, lifetime: SignedDuration) {
        self.with(|state| state.token_lifetime = lifetime);
    }

    /// Returns the token that the fake Keystone issues at a login, and the token's expiry.
    pub fn token(&self) -> (String, String) {
        self.with(|state| (state.valid_token(), (Timestamp::now() + state.token_lifetime).to_string()))
    }

    /// Returns the changes that osdpl has requested from Nova, oldest first.
    pub fn changes(&self) -> Vec<String> {
        self.log.borrow().clone()
    }

    /// Waits until osdpl has requested this change from Nova at least `times` times.
    pub async fn until_changed(&self, change: &str, times: usize) {
        let mut log = self.log.subscribe();
        let requested = log.wait_for(|log| log.iter().filter(|line| *line == change).count() >= times);
        crate::world::with_timeout(&format!("osdpl requests {change:?} from Nova"), requested).await.unwrap();
    }

    /// Returns the number of GET requests that the fake Nova has received.
    pub fn reads(&self) -> u64 {
        self.with(|state| state.reads)
    }

    /// Returns the response of Nova or Neutron to a request. If the request changes something in Nova, adds it to the
    /// log.
    pub fn respond(&self, request: &ApiRequest<'_>) -> ApiResponse {
        let path = request.path.split('?').next().unwrap_or_default();
        let mut state = self.state.lock().unwrap();
        if request.token != state.valid_token() {
            return fault("401 Unauthorized", "error", "The request you have made requires authentication.");
        }
        if path == "/v2.1/" {
            let newest = format!("{}.{}", state.newest.0, state.newest.1);
            return (OK, json!({"version": {"id": "v2.1", "version": newest, "min_version": "2.1"}}));
        }
        if request.service == "neutron-server" {
            return state.neutron(request.verb, path, request.path);
        }
        if let Err(refused) = state.check_version(request.version) {
            return refused;
        }
        if request.verb == "get" {
            state.reads += 1;
            return state.read(path, request.path);
        }
        let (line, response) = state.change_unless_broken(request.verb, path, request.body);
        drop(state);
        self.log.send_modify(|log| log.push(line));
        response
    }
}
