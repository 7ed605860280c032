//! Runs every command of `osdpl` on a Ready cloud with secrets of each kind. The check at the end of the test then
//! searches the outputs for these secrets. The list of commands and of output formats comes from the help, so a new
//! command fails this test until somebody adds it to `calls`.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use serde_json::{Value, json};

use super::collect::Secrets;
use crate::cloud::{services, with_values};
use crate::helm::Recorder;
use crate::world::{World, run_test};

/// A password that the user writes into the resource itself. Only the resource may contain it.
const INLINE: &str = "inline-secret-of-the-user";

/// A password in the values of a release that a person has installed with helm.
const MANUAL: &str = "secret-of-a-manual-release";

/// The command `osdpl operator`. The operator of the test already runs, and the search reads its log, so the test does
/// not run this command a second time.
const OPERATOR: &str = "operator";

/// A command, the arguments of each of its runs, and the exit code that every run must have.
type Calls = (&'static str, Vec<Vec<String>>, i32);

/// Creates the Secrets to which the cloud refers, and returns the spec of the cloud.
async fn spec(world: &World) -> Value {
    world.describe_ceph(json!({})).await;
    for (name, key, text) in [
        ("far", "pw", "secret-of-the-store"),
        ("extra", "values.yaml", "conf: {memcached: {note: secret-of-the-values}}"),
    ] {
        let secret = json!({"metadata": {"name": name}, "stringData": {key: text}});
        let secret: Secret = serde_json::from_value(secret).unwrap();
        world.api().create(&PostParams::default(), &secret).await.unwrap();
    }
    let mut spec = services(&["glance", "keystone", "mariadb", "memcached", "rabbitmq"]);
    let remote = json!({
        "authUrl": "https://keystone.far.example.org/v3", "username": "backup",
        "passwordSecret": {"name": "far", "key": "pw"},
    });
    let ceph = json!({"mode": "external", "secret": {"name": crate::ceph::SECRET}});
    spec["features"] =
        json!({"database": {"backup": {"remote": remote}}, "storage": {"backend": "ceph", "ceph": ceph}});
    let password = json!({"endpoints": {"oslo_db": {"auth": {"admin": {"password": INLINE}}}}});
    let mut spec = with_values(spec, "mariadb", password);
    let from = json!([{"kind": "Secret", "name": "extra"}]);
    spec["services"]["memcached"]["releases"] = json!({"memcached": {"valuesFrom": from}});
    spec
}

/// Installs a release with plain helm, so that `osdpl adopt` finds a release that it can describe.
fn install_manually(world: &World) {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/charts/horizon");
    let password = format!("endpoints.oslo_db.auth.horizon.password={MANUAL}");
    world.helm_prints(&["install", "horizon", chart.to_str().unwrap(), "--no-hooks", "--set", &password]);
}

/// The paths of files that the commands read or write. If a file contains a secret, only its owner may read it.
struct Files {
    /// A file with the resource of the running cloud.
    same: String,
    /// A file with the same resource, but a changed spec.
    changed: String,
    /// Test cases for `osdpl test`, some of which fail.
    tests: String,
    /// The folder into which the commands write files.
    results: PathBuf,
    /// The folder into which `osdpl render --credentials` writes values with credentials, and manifests without them.
    rendered: PathBuf,
}

impl Files {
    fn write(world: &World, spec: &Value) -> Self {
        let folder = world.folder.path();
        let private = |name: &str, spec: &Value| {
            let (file, path) = (world.file(spec), folder.join(name));
            std::fs::rename(file, &path).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
            path.display().to_string()
        };
        let memory = json!({"conf": {"memcached": {"memory": 300}}});
        let changed = with_values(spec.clone(), "memcached", memory);
        let password = json!({"endpoints": {"oslo_db": {"auth": {"admin": {"password": format!("{INLINE}-2")}}}}});
        let changed = with_values(changed, "mariadb", password);
        let path = "endpoints.oslo_db.auth.admin.password";
        let expectations = json!([
            {"release": "mariadb", "path": path, "equals": "other"},
            {"release": "mariadb", "path": path, "matches": "^other"},
            {"release": "mariadb", "path": "endpoints.oslo_db.auth.admin", "equals": {}},
            {"release": "mariadb", "wanted": true},
        ]);
        let tests = folder.join("tests.yaml");
        let cases = json!({"cases": [{"name": "password", "file": "same.yaml", "expect": expectations}]});
        std::fs::write(&tests, osdpl_values::yaml::write(&cases)).unwrap();
        let tests = tests.display().to_string();
        let (results, rendered) = (folder.join("commands-results"), folder.join("rendered"));
        Self { same: private("same.yaml", spec), changed: private("changed.yaml", &changed), tests, results, rendered }
    }

    /// Copies the manifests and the script that `osdpl render --credentials` has written into the folder of results,
    /// which the check at the end of the test searches. The other files contain values with credentials.
    fn copy_manifests(&self) {
        let copies = self.results.join("rendered");
        std::fs::create_dir_all(&copies).unwrap();
        let is_public = |name: &String| name.ends_with(".manifest.yaml") || name == "install.sh";
        let entries = std::fs::read_dir(&self.rendered).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let public: BTreeSet<String> = names.filter(is_public).collect();
        for name in &public {
            std::fs::copy(self.rendered.join(name), copies.join(name)).unwrap();
        }
        assert!(public.contains("mariadb.manifest.yaml") && public.contains("install.sh"), "{public:?}");
        let values = std::fs::read_to_string(self.rendered.join("mariadb.yaml")).unwrap();
        assert!(values.contains(INLINE), "the values must contain the real credentials");
    }

    fn result(&self, name: &str) -> String {
        self.results.join(name).display().to_string()
    }
}

fn join<'a>(first: &[&'a str], second: &[&'a str]) -> Vec<&'a str> {
    [first, second].concat()
}

/// Returns the calls of all commands of osdpl. The commands that change the cloud come last.
fn calls(world: &World, files: &Files) -> Vec<Calls> {
    let charts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/charts").display().to_string();
    // Let the commands run the same recording script as the operator instead of helm. Then the search also reads the
    // command lines and environments of the helm processes that the commands start.
    let helm = Recorder::existing(world.folder.path()).program;
    let (cache, helm) = (world.cache().display().to_string(), helm.display().to_string());
    let charts: Vec<&str> = ["--charts", &charts, "--cache", &cache, "--helm", &helm].to_vec();
    let Files { same, changed, tests, .. } = files;
    let (lock, pulled, rendered) = (files.result("lock"), files.result("pulled"), files.rendered.display().to_string());
    let password = "endpoints.oslo_db.auth.admin.password";
    let remote = "endpoints.identity.auth.mariadb.password";
    let table: Vec<(&'static str, Vec<Vec<&str>>, i32)> = vec![
        ("status", vec![vec![]], 0),
        ("why", vec![vec![], vec!["mariadb"]], 0),
        ("wait", vec![vec!["--timeout", "300"]], 0),
        ("openrc", vec![vec![]], 0),
        ("crd", vec![vec![]], 0),
        (
            "render",
            vec![
                vec!["-f", same],
                join(&["-f", same, "--manifests", "--placeholders"], &charts),
                join(&["--credentials", "--manifests", "--out", &rendered], &charts),
            ],
            0,
        ),
        (
            "explain",
            vec![
                vec!["mariadb", password],
                vec!["mariadb", remote],
                vec!["memcached", "conf"],
                join(&["-f", same, "mariadb", "endpoints"], &charts),
            ],
            0,
        ),
        ("plan", vec![vec![], vec!["-f", changed, "--values"], vec!["--offline", "--values", "-f", changed]], 0),
        ("diff", vec![join(&["-f", changed, "--manifests"], &charts)], 1),
        ("validate", vec![vec![changed]], 0),
        ("test", vec![vec![tests]], 1),
        ("catalog", vec![vec![], vec!["features", "database", "-f", same]], 0),
        ("preset diff", vec![vec!["core", "compute", "-f", same]], 0),
        ("charts list", vec![charts.clone()], 0),
        ("charts lock", vec![join(&["--out", &lock, "memcached"], &charts)], 0),
        ("charts pull", vec![join(&["--to", &pulled, "memcached"], &charts)], 0),
        ("completions", vec![vec!["bash"]], 0),
        ("approve", vec![vec![]], 1),
        ("forget", vec![vec!["no-such-node"]], 0),
        ("adopt", vec![vec![], vec!["memcached"]], 0),
        ("detach", vec![vec!["memcached"]], 0),
        ("smoke", vec![vec![]], 1),
    ];
    let owned = |arguments: Vec<&str>| arguments.into_iter().map(str::to_owned).collect();
    table.into_iter().map(|(command, runs, code)| (command, runs.into_iter().map(owned).collect(), code)).collect()
}

/// Returns the subcommands that a help text lists.
fn listed(help: &str) -> Vec<&str> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // Skip further lines of descriptions, which begin with more than two spaces.
    let names = lines.filter_map(|line| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')));
    names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").collect()
}

/// Returns the formats that a help text lists for the option `--output`.
fn formats(help: &str) -> Vec<String> {
    let text = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let Some((_, option)) = text.split_once("--output <OUTPUT> ") else { return Vec::new() };
    let (_, values) = option.split_once("[possible values: ").expect("the help lists the formats");
    values.split_once(']').unwrap().0.split(", ").map(str::to_owned).collect()
}

/// Returns each command that osdpl lists in its help, and the output formats of the command.
fn commands(world: &World) -> BTreeMap<String, Vec<String>> {
    let mut commands = BTreeMap::new();
    let help = world.osdpl(&["--help"]);
    for name in listed(&help) {
        let help = world.osdpl(&[name, "-h"]);
        let below = listed(&help);
        for subcommand in &below {
            commands.insert(format!("{name} {subcommand}"), formats(&world.osdpl(&[name, subcommand, "-h"])));
        }
        if below.is_empty() {
            commands.insert(name.to_owned(), formats(&help));
        }
    }
    commands
}

/// Runs a command once for each of these output formats.
fn run_in_each_format(world: &World, (command, runs, code): &Calls, formats: &[String]) {
    let mut options: Vec<Vec<&str>> = formats.iter().map(|format| vec!["--output", format.as_str()]).collect();
    if options.is_empty() {
        options.push(Vec::new());
    }
    for option in options {
        for arguments in runs {
            let arguments = arguments.iter().map(String::as_str);
            let arguments: Vec<&str> = command.split(' ').chain(arguments).chain(option.clone()).collect();
            let output = world.run(&arguments);
            let text = String::from_utf8_lossy(&output.stderr);
            assert!(!text.contains("Usage: "), "osdpl {arguments:?}: {text}");
            assert_eq!(output.status.code(), Some(*code), "osdpl {arguments:?}: {text}");
        }
    }
}

#[test]
fn no_command_prints_a_secret() {
    run_test("commands", async |world| {
        let operator = world.operator().start().await;
        let spec = spec(world).await;
        world.apply(&spec).await;
        world.until_ready().await;
        let files = Files::write(world, &spec);
        let (calls, commands) = (calls(world, &files), commands(world));
        let known: BTreeSet<&str> = calls.iter().map(|(command, ..)| *command).chain([OPERATOR]).collect();
        assert_eq!(known, commands.keys().map(String::as_str).collect(), "`calls` must list each command of osdpl");
        let plan = world.kubectl(&["osdpl", "plan", "-f", &files.changed, "--values"]);
        assert!(plan.status.success(), "{plan:?}");
        for call in &calls {
            match call.0 {
                "adopt" => install_manually(world),
                // Without the Service, the login at Keystone fails at once.
                "smoke" => {
                    let deletion = world.kubectl(&["delete", "service", "keystone-api", "-n", &world.namespace]);
                    assert!(deletion.status.success(), "{deletion:?}");
                }
                _ => {}
            }
            run_in_each_format(world, call, &commands[call.0]);
        }
        operator.kill();
        files.copy_manifests();
        let recorded = |name: &str| std::fs::read_to_string(world.folder.path().join(name)).unwrap();
        assert!(recorded("helm.log").contains("\u{1f}template\u{1f}"), "the recorder must record helm of the commands");
        assert!(recorded("helm.log.environment").contains("/commands-temporary\n"), "TMPDIR must be a searched folder");
        let of_user = Secrets { all: [INLINE, MANUAL].map(str::to_owned).into(), ..Secrets::default() };
        let mut leaks = world.leaks_of(&of_user).await;
        leaks.retain(|(place, _)| !place.starts_with("OpenStackDeployment "));
        assert!(leaks.is_empty(), "only the resource itself may contain a password of the user: {leaks:#?}");
    });
}

#[test]
fn reads_commands_and_formats_from_help() {
    let help = "Usage: osdpl\n\nCommands:\n  crd    Print\n         two lines\n  help   Print this\n\nOptions:\n  -h\n";
    assert_eq!(listed(help), ["crd"]);
    let help = "  -o, --output <OUTPUT>  The format [default: text]\n      [possible values: text,\n      json]\n";
    assert_eq!(formats(help), ["text", "json"]);
    assert_eq!(formats("Options:\n  -h, --help"), [""; 0]);
}
