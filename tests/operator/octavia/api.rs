//! Computes the responses of the fake APIs of Keystone, Neutron, Nova and Glance to the program octavia-prerequisites.

use serde_json::{Value, json};

use super::openstack::{Cloud, IMAGE, PROJECT};
use crate::canaries::collect::TOKEN;

/// An HTTP request that the program octavia-prerequisites sends: the parts of the request line, the token and the body.
pub struct ApiRequest<'a> {
    pub verb: &'a str,
    pub path: &'a str,
    pub query: &'a str,
    pub token: &'a str,
    pub body: &'a [u8],
}

/// An HTTP response of the fake APIs to the program octavia-prerequisites.
pub struct ApiResponse {
    pub status: u16,
    /// The token that a login returns in a header; empty in all other responses.
    pub token: &'static str,
    pub content: Vec<u8>,
}

impl ApiResponse {
    fn json(status: u16, content: &Value) -> Self {
        Self { status, token: "", content: content.to_string().into_bytes() }
    }

    fn fault(status: u16, message: &str) -> Self {
        Self::json(status, &json!({"NeutronError": {"type": "Fault", "message": message, "detail": ""}}))
    }
}

impl ApiRequest<'_> {
    /// Returns the body of the request as JSON, or null if the body is not JSON.
    fn json_body(&self) -> Value {
        serde_json::from_slice(self.body).unwrap_or_default()
    }

    /// Returns whether an object matches all parameters of the request's query. Panics if the object lacks a field that
    /// a parameter names.
    fn matches(&self, object: &Value) -> bool {
        self.query.split('&').filter_map(|pair| pair.split_once('=')).all(|(key, value)| {
            let has = object.get(key).unwrap_or_else(|| panic!("{} knows no filter {key}", self.path));
            has == value
        })
    }
}

impl Cloud {
    pub fn respond(&mut self, request: &ApiRequest<'_>) -> ApiResponse {
        let path = request.path.trim_end_matches('/');
        match (request.verb, path) {
            ("GET", "/amphora.qcow2") => return ApiResponse { status: 200, token: "", content: IMAGE.to_vec() },
            ("GET", "/identity/v3" | "/network" | "/network/v2.0" | "/compute/v2.1" | "/image" | "/image/v2") => {
                return self.versions(path);
            }
            ("POST", "/identity/v3/auth/tokens") => return self.login(&request.json_body()),
            _ if request.token != TOKEN => {
                return ApiResponse::fault(401, "The request you have made requires authentication.");
            }
            _ => {}
        }
        let mut parts = path.split('/').skip(1);
        let (service, kind) = (parts.next().unwrap_or_default(), parts.nth(1).unwrap_or_default());
        let below: Vec<&str> = parts.collect();
        if request.verb == "GET" {
            return self.read(service, kind, &below, request);
        }
        let body = request.json_body();
        let name = body.pointer("/name").or_else(|| body.as_object()?.values().next()?.get("name"));
        let target = name.and_then(Value::as_str).map_or_else(|| below.join("/"), str::to_owned);
        let line = format!("{} {kind} {target}", request.verb.to_lowercase()).trim_end().to_owned();
        if self.fails.take_if(|fails| line.contains(fails.as_str())).is_some() {
            return ApiResponse::fault(
                500,
                "The server has either erred or is incapable of performing the requested operation.",
            );
        }
        self.writes.push(line);
        match service {
            "image" => self.image(request.verb, &below, body, request.body),
            _ => self.create(service, kind, &body),
        }
    }

    fn versions(&self, path: &str) -> ApiResponse {
        let service = path.split('/').nth(1).unwrap();
        let version = |id: &str, below: &str| {
            let links = json!([{"rel": "self", "href": format!("{}/{service}/{below}/", self.address)}]);
            json!({"id": id, "status": if service == "identity" { "stable" } else { "CURRENT" }, "links": links, "version": "", "min_version": ""})
        };
        ApiResponse::json(
            200,
            &match service {
                "identity" => json!({"version": version("v3.14", "v3")}),
                "compute" => {
                    json!({"version": {"id": "v2.1", "status": "CURRENT", "version": "2.96", "min_version": "2.1",
                "links": version("v2.1", "v2.1")["links"]}})
                }
                "network" => json!({"versions": [version("v2.0", "v2.0")]}),
                _ => json!({"versions": [version("v2.9", "v2")]}),
            },
        )
    }

    fn login(&self, body: &Value) -> ApiResponse {
        if body.pointer("/auth/identity/password/user/password") != Some(&json!(self.password)) {
            return ApiResponse::fault(401, "The request you have made requires authentication.");
        }
        let entry = |type_: &str, below: &str| {
            let url = format!("{}/{below}", self.address);
            json!({"type": type_, "name": type_, "id": type_, "endpoints":
                [{"id": below, "interface": "internal", "region": "RegionOne", "region_id": "RegionOne", "url": url}]})
        };
        let catalog = [
            entry("network", "network"),
            entry("compute", "compute/v2.1"),
            entry("image", "image"),
            entry("identity", "identity/v3"),
        ];
        let token = json!({"methods": ["password"], "expires_at": "2099-01-01T00:00:00.000000Z", "issued_at": "2026-01-01T00:00:00.000000Z",
            "project": {"id": PROJECT, "name": "admin", "domain": {"id": "default", "name": "default"}},
            "user": {"id": "u", "name": "admin", "domain": {"id": "default", "name": "default"}},
            "roles": [{"id": "r", "name": "admin"}], "catalog": catalog});
        ApiResponse { token: TOKEN, ..ApiResponse::json(201, &json!({"token": token})) }
    }

    fn read(&self, service: &str, kind: &str, below: &[&str], request: &ApiRequest<'_>) -> ApiResponse {
        let all = self.objects.get(kind).map(Vec::as_slice).unwrap_or_default();
        if let ("image", [id]) = (service, below) {
            let one = all.iter().find(|image| image["id"] == **id);
            return one
                .map_or_else(|| ApiResponse::fault(404, "No image found"), |image| ApiResponse::json(200, image));
        }
        let listed: Vec<_> = match service {
            // Nova lists private flavors to an administrator only if the query has this parameter.
            "compute" if request.query == "is_public=None" => all.iter().collect(),
            "compute" => all.iter().filter(|flavor| flavor["os-flavor-access:is_public"] == true).collect(),
            _ => all.iter().filter(|object| request.matches(object)).collect(),
        };
        ApiResponse::json(200, &json!({ (kind.replace('-', "_")): listed }))
    }

    /// Adds the fields that OpenStack sets, such as the ID, to a new object, stores the object and returns it.
    pub fn store(&mut self, kind: &str, mut object: Value) -> Value {
        self.created += 1;
        let id = format!("{:08x}-0000-4000-8000-000000000000", self.created);
        let defaults = json!({"id": id, "project_id": PROJECT, "tenant_id": PROJECT, "name": "", "owner": PROJECT, "status": "ACTIVE"});
        for (key, value) in defaults.as_object().unwrap() {
            object.as_object_mut().unwrap().entry(key).or_insert_with(|| value.clone());
        }
        self.objects.entry(kind.to_owned()).or_default().push(object.clone());
        object
    }

    /// Creates an object. As in real OpenStack, Nova refuses a second object with the same name, and Neutron refuses
    /// only duplicates of security group rules.
    fn create(&mut self, service: &str, kind: &str, body: &Value) -> ApiResponse {
        let (word, object) = body.as_object().unwrap().iter().next().unwrap();
        let mut object = object.clone();
        let all = self.objects.get(kind).cloned().unwrap_or_default();
        let same = |keys: &[&str]| all.iter().any(|one| keys.iter().all(|key| one.get(*key) == object.get(*key)));
        let rule = ["security_group_id", "direction", "ethertype", "protocol", "port_range_min", "port_range_max"];
        if (service == "compute" && same(&["name"])) || (kind == "security-group-rules" && same(&rule)) {
            return ApiResponse::fault(409, &format!("{word} exists already."));
        }
        if kind == "ports" {
            let subnets = self.objects.get("subnets").cloned().unwrap_or_default();
            let subnet = subnets.iter().find(|subnet| subnet["network_id"] == object["network_id"]);
            let address = format!("172.31.0.{}", 11 + all.len());
            object["fixed_ips"] =
                subnet.map_or_else(|| json!([]), |subnet| json!([{"subnet_id": subnet["id"], "ip_address": address}]));
        }
        let created = self.store(kind, object);
        ApiResponse::json(if service == "compute" { 200 } else { 201 }, &json!({ word: created }))
    }

    /// Responds to a request that changes an image in Glance: creates an image without a file, stores the file of an
    /// image, or adds a tag.
    fn image(&mut self, verb: &str, below: &[&str], fields: Value, file: &[u8]) -> ApiResponse {
        if verb == "POST" {
            let mut fields = fields;
            (fields["status"], fields["tags"]) = ("queued".into(), json!([]));
            (fields["created_at"], fields["file_length"]) = ("2026-01-01T00:00:00Z".into(), 0.into());
            return ApiResponse::json(201, &self.store("images", fields));
        }
        let images = self.objects.get_mut("images").unwrap();
        let Some(image) = images.iter_mut().find(|image| image["id"] == below[0]) else {
            return ApiResponse::fault(404, "No image found");
        };
        match below[1..] {
            ["file"] if image["status"] == "queued" => {
                (image["status"], image["file_length"]) = ("active".into(), file.len().into());
            }
            ["tags", tag] => image["tags"].as_array_mut().unwrap().push(tag.into()),
            _ => return ApiResponse::fault(409, "Image status transition is not allowed"),
        }
        ApiResponse { status: 204, token: "", content: Vec::new() }
    }
}
