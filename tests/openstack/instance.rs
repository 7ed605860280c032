//! An instance that serves its metadata and the first sector of its volume by HTTP at a floating IP.

use std::time::Instant;

use serde_json::Value;

use crate::cloud::{Cloud, until};

const CREATE: &str = include_str!("instance.sh");
const DELETE: &str = include_str!("delete-instance.sh");
/// Waits until the instance responds, and prints its metadata.
const METADATA: &str = r#"
for attempt in $(seq 150); do
  curl -s -m 5 "$1" && exit
  sleep 2
done
exit 1"#;

/// Migrates the instance $1 live to the compute $2. Before API version 2.30, Nova did not ask its scheduler.
const MIGRATE: &str = "openstack --os-compute-api-version 2.30 server migrate --live-migration --host $2 --wait $1";

/// A running instance, which is deleted at the end of the test.
pub struct Instance<'a> {
    cloud: &'a Cloud,
    pub name: &'static str,
    /// The URL of the instance's metadata.
    pub url: String,
    /// The URL of the first sector of the instance's volume.
    pub volume: String,
    pub id: String,
}

impl<'a> Instance<'a> {
    /// Creates an instance with a network, a router and a floating IP, and waits until it responds.
    pub fn start(cloud: &'a Cloud, name: &'static str) -> Self {
        let begin = Instant::now();
        // The value exists before the objects do, so that a failure deletes them, too.
        let mut instance = Self { cloud, name, url: String::new(), volume: String::new(), id: String::new() };
        let output = cloud.script(CREATE, &[name]);
        let [id, address] = output.split_whitespace().collect::<Vec<_>>()[..] else { panic!("unexpected: {output}") };
        (instance.url, instance.id) = (format!("http://{address}/metadata"), id.into());
        instance.volume = format!("http://{address}/cgi-bin/volume");
        println!("  the instance {name} is ACTIVE after {:.0?}", begin.elapsed());
        instance.check();
        println!("  the instance responds at its floating IP {address} after {:.0?}", begin.elapsed());
        instance
    }

    /// Waits until the instance responds with its metadata.
    pub fn check(&self) {
        let metadata: Value = match serde_json::from_str(&self.cloud.script(METADATA, &[&self.url])) {
            Ok(metadata) => metadata,
            Err(error) => panic!("the instance {} serves no metadata: {error}", self.name),
        };
        assert_eq!(metadata["uuid"], Value::String(self.id.clone()), "{metadata}");
        assert_eq!(metadata["name"], self.name);
    }

    /// Writes a text to the instance's volume, and checks that the volume contains it.
    pub fn write_volume(&self, text: &str) {
        assert_eq!(self.request_volume(&format!("{}?{text}", self.volume)), text);
    }

    /// Returns the text at the beginning of the instance's volume.
    pub fn read_volume(&self) -> String {
        self.request_volume(&self.volume)
    }

    /// Waits until the system of the instance can use its volume, and returns the response.
    fn request_volume(&self, url: &str) -> String {
        until(&format!("the instance {} can use its volume", self.name), || {
            let response = self.cloud.try_script(r#"curl -s -f -m 20 "$1""#, &[url]).ok()?;
            Some(response.trim_end().to_owned())
        })
    }

    /// Returns when Nova started the instance.
    pub fn launched_at(&self) -> Value {
        self.cloud.openstack(&["server", "show", self.name])["OS-SRV-USG:launched_at"].clone()
    }

    /// Returns the compute on which the instance runs.
    pub fn host(&self) -> String {
        let server = self.cloud.openstack(&["server", "show", self.name]);
        server["OS-EXT-SRV-ATTR:host"].as_str().expect("the instance runs on no host").to_owned()
    }

    /// Returns the end of the log of the instance's console.
    pub fn console(&self) -> String {
        self.cloud.script("openstack console log show $1", &[self.name])
    }

    /// Migrates the instance live to this compute, if Nova's scheduler accepts it.
    pub fn migrate(&self, host: &str) {
        let begin = Instant::now();
        self.cloud.script(MIGRATE, &[self.name, host]);
        assert_eq!(self.host(), host, "nova did not migrate the instance {}", self.name);
        println!("  the instance {} is migrated to {host}, after {:.0?}", self.name, begin.elapsed());
    }
}

impl Drop for Instance<'_> {
    fn drop(&mut self) {
        let begin = Instant::now();
        match self.cloud.try_script(DELETE, &[self.name]) {
            Ok(_) => println!("  the instance {} is deleted, after {:.0?}", self.name, begin.elapsed()),
            Err(error) if std::thread::panicking() => {
                println!("  the instance {} is not deleted completely: {error}", self.name);
            }
            Err(error) => panic!("the instance {} is not deleted completely: {error}", self.name),
        }
    }
}
