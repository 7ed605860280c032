//! Computes the responses of the fake APIs of Nova and Neutron.

use serde_json::{Value, json};

use super::{MigrationOutcome, State};

pub type ApiResponse = (&'static str, Value);

pub const OK: &str = "200 OK";
pub const HOST: &str = "OS-EXT-SRV-ATTR:host";
pub const TASK: &str = "OS-EXT-STS:task_state";

pub fn fault(status: &'static str, name: &str, message: &str) -> ApiResponse {
    (status, json!({name: {"code": status[..3].parse::<u16>().unwrap(), "message": message}}))
}

pub fn find<'a>(all: &'a mut [Value], id: &str) -> Option<&'a mut Value> {
    all.iter_mut().find(|one| one["id"] == id)
}

fn query<'a>(path: &'a str, key: &str) -> Option<&'a str> {
    path.split(['?', '&']).skip(1).find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='))
}

impl State {
    /// Checks the microversion of a request as Nova does. For a request without a microversion, Nova uses 2.1. Nova
    /// responds to an invalid microversion with status 400, and to one that is newer than Nova supports with status
    /// 406. Unlike Nova, the fake also refuses microversions older than 2.53, with status 400.
    pub(super) fn check_version(&self, version: &str) -> Result<(), ApiResponse> {
        let version = if version.is_empty() { "2.1" } else { version };
        let Some((Ok(major), Ok(minor))) =
            version.split_once('.').map(|(major, minor)| (major.parse::<u32>(), minor.parse::<u32>()))
        else {
            return Err(fault("400 Bad Request", "badRequest", "API Version String is of invalid format."));
        };
        if (major, minor) > self.newest {
            let detail = format!("Version {version} is not supported by the API.");
            return Err(("406 Not Acceptable", json!({"errors": [{"status": 406, "detail": detail}]})));
        }
        if (major, minor) < (2, 53) {
            return Err(fault("400 Bad Request", "badRequest", "This simulation supports services by UUID only."));
        }
        Ok(())
    }

    pub(super) fn read(&self, path: &str, url: &str) -> ApiResponse {
        let of_host = |all: &[Value], field: &str| -> Vec<Value> {
            let host = query(url, "host");
            all.iter().filter(|one| host.is_none_or(|host| one[field] == host)).cloned().collect()
        };
        match path {
            "/v2.1/os-services" => (OK, json!({"services": of_host(&self.services, "host")})),
            "/v2.1/os-hypervisors/detail" => {
                let of = |service: &Value| json!({"id": service["id"], "hypervisor_hostname": service["host"], "service": service});
                let mapped = |service: &&Value| !self.unmapped.iter().any(|host| service["host"] == **host);
                let all: Vec<Value> = self.services.iter().filter(mapped).map(of).collect();
                let (page, links) = self.paged(&all, url);
                (OK, json!({"hypervisors": page, "hypervisors_links": links}))
            }
            "/v2.1/servers/detail" => {
                let all = of_host(&self.servers, HOST);
                let (page, links) = self.paged(&all, url);
                (OK, json!({"servers": page, "servers_links": links}))
            }
            "/v2.1/os-migrations" => {
                // Filter as Nova does. The parameter `host` matches the source or the destination of a migration. There
                // is no parameter for the destination alone. Nova ignores unknown parameters.
                let (source, host) = (query(url, "source_compute"), query(url, "host"));
                let of = |one: &&Value| {
                    source.is_none_or(|source| one["source_compute"] == source)
                        && host.is_none_or(|host| one["source_compute"] == host || one["dest_compute"] == host)
                };
                let all: Vec<_> = self.migrations.iter().filter(of).collect();
                (OK, json!({"migrations": all}))
            }
            _ => {
                let id = path.strip_prefix("/v2.1/servers/").unwrap_or_default();
                let one = self.servers.iter().find(|server| server["id"] == id);
                let not_found = || fault("404 Not Found", "itemNotFound", "The resource could not be found.");
                one.map_or_else(not_found, |server| (OK, json!({"server": server})))
            }
        }
    }

    /// Returns the page of objects after the `marker` in the URL, and a list with the link to the next page. On the
    /// last page, this list is empty.
    fn paged<'a>(&self, all: &'a [Value], url: &str) -> (&'a [Value], Value) {
        let marker = query(url, "marker").and_then(|id| all.iter().position(|one| one["id"] == id));
        let rest = &all[marker.map_or(0, |at| at + 1)..];
        let page = &rest[..rest.len().min(self.page)];
        let next = json!([{"rel": "next", "href": "https://nova.example.org/v2.1/next"}]);
        (page, if page.len() < rest.len() { next } else { json!([]) })
    }

    pub(super) fn change_unless_broken(&mut self, verb: &str, path: &str, body: &Value) -> (String, ApiResponse) {
        if self.broken {
            let message = "Unexpected API Error. Please report this at http://bugs.launchpad.net/nova/";
            return (format!("{verb} failed"), fault("500 Internal Server Error", "computeFault", message));
        }
        self.change(verb, path, body)
    }

    /// Executes a change that osdpl requests. Returns the line for the log of changes, and the response.
    pub(super) fn change(&mut self, verb: &str, path: &str, body: &Value) -> (String, ApiResponse) {
        let below = path.trim_start_matches("/v2.1/");
        let id = below.split('/').nth(1).unwrap_or_default();
        match (verb, below.split('/').next().unwrap_or_default()) {
            ("put", "os-services") => {
                let line = format!("put {below} {}", body["status"].as_str().unwrap_or_default());
                let Some(service) = find(&mut self.services, id) else {
                    return (line, fault("404 Not Found", "itemNotFound", "Compute host could not be found."));
                };
                service["status"] = body["status"].clone();
                service["disabled_reason"] = body["disabled_reason"].clone();
                (line, (OK, json!({"service": service})))
            }
            ("delete", "os-services") => (format!("delete {below}"), self.forget(id)),
            ("post", "servers") if body["os-migrateLive"].is_object() => (format!("migrate {id}"), self.migrate(id)),
            _ => (format!("{verb} {below}"), fault("404 Not Found", "itemNotFound", "No such action.")),
        }
    }

    fn forget(&mut self, id: &str) -> ApiResponse {
        let host = find(&mut self.services, id).map(|service| service["host"].clone());
        if self.servers.iter().any(|server| Some(&server[HOST]) == host.as_ref()) {
            let message = "Unable to delete compute service that is hosting instances.";
            return fault("409 Conflict", "conflictingRequest", message);
        }
        if host.is_none() {
            return fault("404 Not Found", "itemNotFound", "Service could not be found.");
        }
        self.services.retain(|service| service["id"] != id);
        ("204 No Content", json!({}))
    }

    fn migrate(&mut self, id: &str) -> ApiResponse {
        let outcome = self.migration_outcome;
        let Some(server) = find(&mut self.servers, id) else {
            return fault("404 Not Found", "itemNotFound", "Instance could not be found.");
        };
        if !["ACTIVE", "PAUSED"].iter().any(|status| server["status"] == *status) || !server[TASK].is_null() {
            let message = format!("Cannot 'os-migrateLive' instance {id} while it is in vm_state stopped");
            return fault("409 Conflict", "conflictingRequest", &message);
        }
        let status = if outcome == MigrationOutcome::Failed { "error" } else { "running" };
        if outcome != MigrationOutcome::Failed {
            server["status"] = "MIGRATING".into();
            server[TASK] = "migrating".into();
        }
        let number = self.migrations.len() + 1;
        self.migrations.push(json!({"id": number, "instance_uuid": id, "source_compute": server[HOST],
            "migration_type": "live-migration", "status": status}));
        if outcome == MigrationOutcome::Immediate {
            self.complete_migration(id);
        }
        ("202 Accepted", Value::Null)
    }

    /// Starts a live migration of an instance to `host`, as if Nova's scheduler had chosen this host.
    pub(super) fn start_migration(&mut self, id: &str, host: &str) {
        let number = self.migrations.len() + 1;
        let server = find(&mut self.servers, id).unwrap();
        (server["status"], server[TASK]) = ("MIGRATING".into(), "migrating".into());
        self.migrations.push(json!({"id": number, "instance_uuid": id, "source_compute": server[HOST],
            "dest_compute": host, "migration_type": "live-migration", "status": "running"}));
    }

    /// Completes the newest migration of an instance, by moving the instance to the host that was chosen at the start
    /// of the migration. If no host was chosen, moves the instance to any other host that is enabled and up. If there
    /// is no such host, the migration fails.
    pub(super) fn complete_migration(&mut self, id: &str) {
        let Some(server) = find(&mut self.servers, id) else { return };
        let is_available = |service: &&Value| {
            service["host"] != server[HOST] && service["status"] == "enabled" && service["state"] == "up"
        };
        let migration = self.migrations.iter_mut().rev().find(|migration| migration["instance_uuid"] == id).unwrap();
        let chosen = Some(migration["dest_compute"].clone()).filter(Value::is_string);
        let target = chosen.or_else(|| self.services.iter().find(is_available).map(|service| service["host"].clone()));
        let status = if target.is_some() { "completed" } else { "error" };
        let host = target.unwrap_or_else(|| server[HOST].clone());
        (server[HOST], server["status"], server[TASK]) = (host, "ACTIVE".into(), Value::Null);
        migration["status"] = status.into();
    }

    pub(super) fn neutron(&mut self, verb: &str, path: &str, url: &str) -> ApiResponse {
        let host = query(url, "host");
        let of = |agent: &&Value| host.is_none_or(|host| agent["host"] == host);
        match (verb, path.strip_prefix("/v2.0/agents/")) {
            ("get", None) => (OK, json!({"agents": self.agents.iter().filter(of).collect::<Vec<_>>()})),
            ("delete", Some(id)) if find(&mut self.agents, id).is_some() => {
                self.agents.retain(|agent| agent["id"] != id);
                ("204 No Content", json!({}))
            }
            _ => fault("404 Not Found", "NeutronError", "Agent could not be found."),
        }
    }
}
