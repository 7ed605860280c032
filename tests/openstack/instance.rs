//! An instance that serves its metadata by HTTP at a floating IP.

use std::time::Instant;

use serde_json::Value;

use crate::cloud::Cloud;

const CREATE: &str = include_str!("instance.sh");
const DELETE: &str = include_str!("delete-instance.sh");
/// Waits until the instance responds, and prints its metadata.
const METADATA: &str = r#"
for attempt in $(seq 150); do
  curl -s -m 5 "$1" && exit
  sleep 2
done
exit 1"#;

/// A running instance, which is deleted at the end of the test.
pub struct Instance<'a> {
    cloud: &'a Cloud,
    name: &'static str,
    /// The URL of the instance's metadata.
    pub url: String,
    pub id: String,
}

impl<'a> Instance<'a> {
    /// Creates an instance with a network, a router and a floating IP, and waits until it responds.
    pub fn start(cloud: &'a Cloud, name: &'static str) -> Self {
        let begin = Instant::now();
        // The value exists before the objects do, so that a failure deletes them, too.
        let mut instance = Self { cloud, name, url: String::new(), id: String::new() };
        let output = cloud.script(CREATE, &[name]);
        let [id, address] = output.split_whitespace().collect::<Vec<_>>()[..] else { panic!("unexpected: {output}") };
        (instance.url, instance.id) = (format!("http://{address}/metadata"), id.into());
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

    /// Returns when Nova started the instance.
    pub fn launched_at(&self) -> Value {
        self.cloud.openstack(&["server", "show", self.name])["OS-SRV-USG:launched_at"].clone()
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
