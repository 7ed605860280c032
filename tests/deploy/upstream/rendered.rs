//! Renders every release of the catalogue whose chart is available, with both versions of helm and for each OpenStack
//! release. Two renders of the same values must be equal, and must not contain secrets that upstream publishes.

use std::collections::BTreeSet;
use std::sync::Mutex;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cluster::Program;

use osdpl_core::catalog::{Catalog, Endpoint};
use osdpl_core::desired::Desired;

use super::{Kind, ON_CLAIMS, everything, random_output};
use crate::render::{found, given, helm};
use crate::shipped;

/// Secrets in upstream's values. A line that contains one of these strings contains a secret, whatever the name of its
/// key.
const LITERAL: [&str; 11] = [
    ":password@",
    "supersecret",
    "chiave_segreta",
    "CHANGE_ME",
    "openstack-cookie",
    "SOMELONGSECRETKEY",
    "psql_exp_pass",
    "changeme",
    "not-secure-passphrase",
    "457eb676-33da-42ec-9a8c-9293d545c337",
    "aCtmgbcUqYUy_HNVg5BDXCaeJgJQzHJXwqbXr0Nmb2o",
];

/// A release to render: its cloud, name, chart and values, the type under which the operator looks for its API in
/// Keystone's service catalogue, and whether the test renders it twice to find random output.
struct Piece {
    cloud: String,
    name: String,
    chart: String,
    values: String,
    api: Option<String>,
    twice: bool,
}

/// Returns the clouds to render: the clouds on Ceph for each OpenStack release, and the cloud without Ceph only for the
/// newest OpenStack release. OpenStack releases differ only in their images, so one release is enough for the cloud
/// without Ceph.
pub(super) fn clouds(catalog: &Catalog) -> Vec<(&str, &'static str, Desired)> {
    let newest = catalog.openstack.keys().max().unwrap();
    let mut clouds = Vec::new();
    for release in catalog.openstack.keys() {
        let kinds = Kind::all(catalog).into_iter().filter(|kind| kind.name != ON_CLAIMS || release == newest);
        clouds.extend(kinds.map(|kind| (release.as_str(), kind.name, everything(catalog, release, &kind))));
    }
    clouds
}

/// Returns a [`Piece`] for each release to render: each release whose chart is available, once for each set of values
/// that the release has in the clouds.
///
/// To find random output, the test renders the same piece twice. Random output does not depend on the values, so the
/// test does this with only one piece for each pair of OpenStack release and helm release.
fn pieces(catalog: &Catalog) -> Vec<Piece> {
    let (mut rendered, mut names) = (BTreeSet::new(), BTreeSet::new());
    let mut pieces = Vec::new();
    for (release, kind, desired) in clouds(catalog) {
        for (name, wanted) in desired.releases {
            let values = serde_json::to_string(&wanted.values).unwrap();
            if found(&wanted.chart).is_ok() && rendered.insert((name.clone(), values.clone())) {
                let twice = names.insert((release, name.clone()));
                let endpoint = catalog.release(&name).and_then(|(_, release)| release.endpoint.as_ref());
                let (api, cloud) = (endpoint.map(Endpoint::service_type), format!("{release} {kind}"));
                pieces.push(Piece { cloud, name, chart: wanted.chart, values, api, twice });
            }
        }
    }
    pieces
}

/// Renders a release with both versions of helm, and returns the problems. Problems are errors of helm, random output,
/// publicly known secrets, folders of the node that the pods require but do not create, and an API that the chart
/// registers in Keystone only with other types than the one that the operator looks for.
fn faults(piece: &Piece) -> Vec<String> {
    let chart = found(&piece.chart).unwrap();
    // Some charts from outside OpenStack-Helm restrict the Kubernetes version (`kubeVersion`). So render for a fixed
    // version that all charts accept.
    let arguments = ["template", &piece.name, chart.to_str().unwrap(), "--namespace", "openstack"];
    let arguments = [&arguments[..], &["--kube-version", "1.34.0", "--values", "-"]].concat();
    let subject = format!("{} ({})", piece.name, piece.cloud);
    let render = |which: Program| helm(which, &arguments, &piece.values);
    let mut faults = Vec::new();
    match render(Program::Helm4) {
        Err(complaint) => faults.push(format!("{subject}: helm 4: {complaint}")),
        Ok(manifest) => {
            if piece.twice {
                let masked = |manifest: String| random_output::mask(&piece.chart, &manifest);
                match (masked(manifest.clone()), render(Program::Helm4).and_then(masked)) {
                    (Ok(first), Ok(second)) if first == second => {}
                    (Err(stale), _) => faults.push(format!("{subject}: {stale}")),
                    _ => faults.push(format!("{subject}: two renders differ; set the random values")),
                }
            }
            faults.extend(leaks(&manifest).into_iter().map(|leak| format!("{subject}: {leak} is publicly known")));
            let types = registered(&manifest);
            let is_wrong = |api: &&String| !types.is_empty() && !types.contains(api.as_str());
            let wrong = piece.api.iter().find(is_wrong);
            faults.extend(wrong.map(|api| format!("{subject}: Keystone gets {types:?}, and not {api}")));
            let folders = missing_folders(&manifest).into_iter();
            faults.extend(
                folders.map(|folder| format!("{subject}: its pods wait for {folder}, which they do not create")),
            );
        }
    }
    faults.extend(render(Program::Helm3).err().map(|complaint| format!("{subject}: helm 3: {complaint}")));
    faults
}

/// Returns the lines of a manifest that contain a secret, in plain text or in base64, that upstream publishes.
fn leaks(manifest: &str) -> BTreeSet<String> {
    let is_base64 = |character: char| character.is_ascii_alphanumeric() || "+/=".contains(character);
    let tokens = manifest.split(|character| !is_base64(character)).filter(|token| token.len() >= 8);
    let decoded = tokens.filter_map(|token| String::from_utf8(STANDARD.decode(token).ok()?).ok());
    let texts = decoded.chain([manifest.to_owned(), variables(manifest).join("\n")]);
    texts.flat_map(|text| text.lines().filter(|line| is_known(line)).map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// Returns the folders below `/run` that the pods of a manifest require on their node but do not create.
fn missing_folders(manifest: &str) -> BTreeSet<String> {
    let typed = |kind: &str| {
        let lines: Vec<&str> = manifest.lines().map(str::trim).collect();
        let pairs = lines.windows(2).filter(|pair| pair[1] == format!("type: {kind}"));
        pairs.filter_map(|pair| Some(pair[0].strip_prefix("path: ")?.to_owned())).collect::<BTreeSet<_>>()
    };
    let required = typed("Directory").into_iter().filter(|path| path.starts_with("/run/"));
    required.filter(|path| !typed("DirectoryOrCreate").contains(path)).collect()
}

/// Whether a line contains a secret that upstream publishes: a string in [`LITERAL`], or a common password as the value
/// of a key that is named like a secret.
fn is_known(line: &str) -> bool {
    let word = |text: &str| ["password", "insecure", "changeme"].contains(&text);
    let names_secret = |key: &str| ["pass", "secret", "token", "_key"].iter().any(|part| key.contains(part));
    let is_secret = |key: &str| names_secret(key) || key.ends_with("_auth");
    let assigned = assigned(line);
    // The value of the line's first key may contain further assignments: `user:password`, or a map in braces. If the
    // first key is named like a secret, each of these assignments may contain the secret.
    let is_within = assigned.first().is_some_and(|(key, _)| is_secret(key));
    let is_known = |(key, value): &(String, &str)| {
        let decoded = STANDARD.decode(value).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let is_type = key.ends_with("auth_type");
        ((is_within || is_secret(key)) && word(value)) || (!is_type && decoded.is_some_and(|decoded| word(&decoded)))
    };
    assigned.iter().any(is_known) || LITERAL.iter().any(|literal| line.contains(literal))
}

/// Returns the assignments in a line: `key: value`, `--key=value`, `{"key": "value"}`, `user:value`.
fn assigned(line: &str) -> Vec<(String, &str)> {
    let of_name = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
    let of_value = |letter: char| of_name(letter) || "+/=".contains(letter);
    let is_around = |letter: char| " \t\"'".contains(letter);
    let pair = |(at, _): (usize, &str)| {
        let key = line[..at].trim_end_matches(is_around);
        let key = key.rsplit(|letter| !of_name(letter)).next().unwrap_or_default();
        let value = line[at + 1..].trim_start_matches(is_around);
        (key.to_lowercase(), value.split(|letter| !of_value(letter)).next().unwrap_or_default())
    };
    line.match_indices([':', '=']).map(pair).collect()
}

/// Returns each environment variable of a manifest as one line, `NAME: value`. In the manifest, the value is on a line
/// without the name, but only the name shows whether the value is a secret.
fn variables(manifest: &str) -> Vec<String> {
    let lines: Vec<&str> = manifest.lines().map(|line| line.trim().trim_start_matches("- ")).collect();
    let pairs =
        lines.windows(2).filter_map(|pair| Some((pair[0].strip_prefix("name: ")?, pair[1].strip_prefix("value: ")?)));
    pairs.map(|(name, value)| format!("{name}: {value}")).collect()
}

/// Returns the types with which the Jobs in a manifest register APIs in Keystone's service catalogue.
fn registered(manifest: &str) -> BTreeSet<&str> {
    let lines: Vec<&str> = manifest.lines().map(|line| line.trim_start_matches([' ', '-'])).collect();
    let values = lines.windows(2).filter(|pair| pair[0] == "name: OS_SERVICE_TYPE");
    values.filter_map(|pair| Some(pair[1].strip_prefix("value: ")?.trim_matches('"'))).collect()
}

#[test]
fn finds_public_secrets_in_any_notation() {
    for line in [
        "password: password",
        "  --password=password \\",
        r#"{"auth": {"password": "password"}}"#,
        r#"sst_auth: "sst:password""#,
        r#"password: "password" # c"#,
        "OS_PASSWORD: cGFzc3dvcmQ=",
        "export ADMIN_PASSWORD='changeme'",
    ] {
        assert!(is_known(line), "{line}");
    }
    for line in ["auth_type = password", "methods = password,token", r#""methods": ["password"]"#, "password: 0pX9"] {
        assert!(!is_known(line), "{line}");
    }
    assert_eq!(
        leaks("env:\n- name: DB_PASSWORD\n  value: password\n- name: OS_AUTH_TYPE\n  value: password\n").len(),
        1
    );
}

#[test]
fn charts_render_stably_without_public_secrets() {
    let catalog = shipped();
    let pieces = pieces(&catalog);
    let rendered: BTreeSet<_> = pieces.iter().map(|piece| piece.name.as_str()).collect();
    match given() {
        // The folder must contain all of upstream's charts, but may lack charts of other projects. A chart is one of
        // upstream's if the chart lock names no repository for it.
        Some(folder) => {
            let is_upstreams = |chart: &String| catalog.lock.get(chart).is_some_and(|pin| pin.repository.is_none());
            let releases = catalog.services.values().flat_map(|service| &service.releases);
            let upstreams = releases.filter(|(_, release)| is_upstreams(&release.chart)).map(|(name, _)| name.as_str());
            let left: Vec<_> = upstreams.filter(|name| !rendered.contains(name)).collect();
            let folder = folder.display();
            assert!(
                left.is_empty(),
                "the test must render every release of upstream's charts in {folder}, but did not render {left:?}"
            );
        }
        None => assert!(
            rendered.len() >= 14,
            "tests/charts must contain the charts of at least 14 releases, but contains only those of {rendered:?}"
        ),
    }
    let (queue, faults) = (Mutex::new(pieces.iter()), Mutex::new(Vec::new()));
    let next = || queue.lock().unwrap().next();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while let Some(piece) = next() {
                    faults.lock().unwrap().extend(self::faults(piece));
                }
            });
        }
    });
    let faults = faults.into_inner().unwrap();
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn finds_public_secrets_in_base64() {
    let encoded = |text: &str| STANDARD.encode(text);
    let bad = [
        "  password: password".to_owned(),
        "OS_PASSWORD=password".to_owned(),
        format!("  OS_PASSWORD: {}", encoded("password")),
        format!("  nova.conf: {}", encoded("[database]\nconnection = mysql+pymysql://nova:password@mariadb/nova\n")),
        format!("  octavia.conf: {}", encoded("[health_manager]\nheartbeat_key = insecure\n")),
        "  api_token: chiave_segreta".to_owned(),
    ];
    for line in bad {
        assert_eq!(leaks(&line).len(), 1, "{line}");
    }
    let good = [
        "auth_type = password".to_owned(),
        format!("  OS_AUTH_TYPE: {}", encoded("password")),
        format!("  nova.conf: {}", encoded("[keystone_authtoken]\nauth_type = password\n")),
        "  password: the-nova-identity".to_owned(),
    ];
    for line in good {
        assert_eq!(leaks(&line), BTreeSet::new(), "{line}");
    }
}

#[test]
fn finds_a_folder_of_the_node() {
    let volume = |kind: &str| format!("  - hostPath:\n      path: /run/openvswitch\n      type: {kind}\n");
    assert_eq!(missing_folders(&volume("Directory")).len(), 1);
    assert_eq!(missing_folders(&(volume("Directory") + &volume("DirectoryOrCreate"))), BTreeSet::new());
    assert_eq!(missing_folders(&volume("Directory").replace("/run/openvswitch", "/lib/modules")), BTreeSet::new());
}
