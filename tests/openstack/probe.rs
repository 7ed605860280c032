//! Sends a request each second to an API or an instance, and counts the requests that fail.

use std::io::{BufRead, BufReader};
use std::process::Child;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::cloud::Cloud;

/// Sends requests from the client's pod, and prints the status code of each response, or 000 without a response. Ends
/// when its standard input is closed.
const LOOP: &str = r#"
while :; do
  curl -s -o /dev/null -m 5 ${OS_CACERT:+--cacert "$OS_CACERT"} -w '%{http_code}\n' -H "X-Auth-Token: $2" "$1"
  read -r -t 1
  [ $? -gt 128 ] || exit 0
done"#;
/// Prints the URLs of the internal endpoints, and then a token and the id of its project.
const ENDPOINTS: &str = "openstack endpoint list --interface internal -f value -c 'Service Type' -c URL
echo $(openstack token issue -f value -c id -c project_id)";
/// A request to the API of each of these services that reads from its database.
const REQUESTS: [(&str, &str); 8] = [
    ("identity", "/users"),
    ("image", "/v2/images"),
    ("placement", "/resource_providers"),
    ("network", "/v2.0/networks"),
    ("compute", "/servers"),
    ("volumev3", "/volumes"),
    ("orchestration", "/stacks"),
    ("key-manager", "/v1/secrets"),
];

/// The name of the probe of an instance.
pub const INSTANCE: &str = "the instance";

/// The requests to one URL.
struct Probe {
    name: String,
    child: Child,
    reader: JoinHandle<Report>,
}

/// The result of a probe.
pub struct Report {
    pub name: String,
    pub requests: usize,
    pub failures: usize,
    /// The longest time without a successful response in which a request failed.
    pub longest_gap: Duration,
}

/// The probes of all APIs, and perhaps of an instance.
pub struct Probes(Vec<Probe>);

impl Probes {
    /// Starts to send requests to the APIs of the cloud, and to `instance` (a URL).
    pub fn start(cloud: &Cloud, instance: Option<&str>) -> Self {
        let output = cloud.script(ENDPOINTS, &[]);
        let mut lines: Vec<(&str, &str)> = output.lines().filter_map(|line| line.split_once(' ')).collect();
        let (token, project) = lines.pop().expect("the script prints a token at its end");
        let mut urls: Vec<(String, String)> = Vec::new();
        for (service, url) in lines {
            let url = url.replace("%(tenant_id)s", project).replace("%(project_id)s", project);
            let path = REQUESTS.iter().find(|(name, _)| *name == service).map(|(_, path)| path);
            urls.extend(path.map(|path| (service.to_owned(), format!("{}{path}", url.trim_end_matches('/')))));
        }
        assert!(urls.len() >= 5, "the cloud has too few APIs: {output}");
        urls.extend(instance.map(|url| (INSTANCE.to_owned(), url.to_owned())));
        Self(urls.into_iter().map(|(name, url)| Probe::start(cloud, name, &url, token)).collect())
    }

    /// Ends the probes, prints their results, and returns them.
    pub fn stop(self) -> Vec<Report> {
        let reports: Vec<Report> = self.0.into_iter().map(Probe::stop).collect();
        for Report { name, requests, failures, longest_gap } in &reports {
            println!("    {name:<14} {failures} of {requests} requests failed; longest gap {longest_gap:.0?}");
        }
        reports
    }
}

impl Probe {
    fn start(cloud: &Cloud, name: String, url: &str, token: &str) -> Self {
        let mut child = cloud.start_script(LOOP, &[url, token]);
        let output = child.stdout.take().unwrap();
        let of = name.clone();
        let reader = std::thread::spawn(move || read(of, BufReader::new(output).lines().map_while(Result::ok)));
        Self { name, child, reader }
    }

    fn stop(mut self) -> Report {
        drop(self.child.stdin.take());
        let status = self.child.wait().unwrap();
        let report = self.reader.join().unwrap();
        assert!(status.success() && report.requests > 0, "the probe of {} has ended early: {status}", self.name);
        report
    }
}

/// Counts the requests, of which each line contains the status code.
fn read(name: String, lines: impl Iterator<Item = String>) -> Report {
    let mut report = Report { name, requests: 0, failures: 0, longest_gap: Duration::ZERO };
    let (mut last, mut has_failed) = (Instant::now(), false);
    for line in lines {
        report.requests += 1;
        let code: u16 = line.trim().parse().unwrap_or_default();
        if (200..400).contains(&code) {
            if has_failed {
                report.longest_gap = report.longest_gap.max(last.elapsed());
            }
            (last, has_failed) = (Instant::now(), false);
        } else {
            println!(
                "    {} responds with {line} {:.1} s after its last success",
                report.name,
                last.elapsed().as_secs_f32()
            );
            report.failures += 1;
            has_failed = true;
        }
    }
    if has_failed {
        report.longest_gap = report.longest_gap.max(last.elapsed());
    }
    report
}
