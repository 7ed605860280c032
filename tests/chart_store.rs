//! Checks the chart store with the real helm 3 and 4: the store pulls charts from a local repository, and packages
//! charts exactly as helm does.

#![allow(clippy::disallowed_methods, reason = "tests start programs and write files")]

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path as UrlPath, State};
use axum::http::StatusCode;
use axum::response::Redirect;
use axum::routing::get;
use axum::serve::Listener;
use cluster::programs::{self, Program};
use osdpl_operator::charts::pull::{NoPull, Request};
use osdpl_operator::charts::{Chart, ChartRequest, Error, Lock, Pull, Source, Store};
use osdpl_operator::helm;
use serde_json::json;
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::{self, pki_types::PrivatePkcs8KeyDer};
use tokio_rustls::server::TlsStream;

/// Returns the programs of both versions of helm, and builds missing ones. If a tool for the build is missing, the test
/// fails with a message that names the tool.
fn helms() -> BTreeMap<u8, PathBuf> {
    let found = programs::ensure(&[Program::Helm3, Program::Helm4], &mut programs::print_progress).unwrap();
    let path = |program| found.path(program).unwrap().to_owned();
    BTreeMap::from([(3, path(Program::Helm3)), (4, path(Program::Helm4))])
}

fn stand_ins() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/charts")
}

/// Runs helm as a user does, with helm's folders for cache, configuration and data in `home`.
fn run(helm: &Path, home: &Path, arguments: &[&str]) {
    let homes = ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"].map(|name| (name, home.join(name)));
    let output = Command::new(helm).args(arguments).envs(homes).output().unwrap();
    assert!(output.status.success(), "helm {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A chart repository: a folder, and an HTTP server on the loopback interface that serves the folder.
struct Repository {
    folder: TempDir,
    url: String,
}

impl Repository {
    async fn start() -> Self {
        let folder = TempDir::new().unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let files = Router::new().route("/{file}", get(serve)).with_state(folder.path().to_owned());
        tokio::spawn(async move { axum::serve(listener, files).await });
        Self { folder, url }
    }

    /// Packages a stand-in chart with this version and updates the repository's index, as the job that publishes
    /// OpenStack-Helm's charts does.
    fn publish(&self, helm: &Path, chart: &Path, version: &str) {
        let (folder, home) = (self.folder.path().to_str().unwrap(), self.folder.path());
        let copy = TempDir::new().unwrap();
        packable(helm, home, chart, copy.path());
        let chart = copy.path().join(chart.file_name().unwrap());
        run(helm, home, &["package", chart.to_str().unwrap(), "--version", version, "-d", folder]);
        run(helm, home, &["repo", "index", folder, "--url", &self.url]);
    }
}

async fn serve(State(folder): State<PathBuf>, UrlPath(file): UrlPath<String>) -> Result<Vec<u8>, StatusCode> {
    tokio::fs::read(folder.join(file)).await.map_err(|_| StatusCode::NOT_FOUND)
}

/// Copies a chart with its sibling charts into `into`, and lets helm add the chart's dependencies to the copy.
fn packable(helm: &Path, home: &Path, chart: &Path, into: &Path) {
    copy(chart.parent().unwrap(), into);
    let copied = into.join(chart.file_name().unwrap());
    // Remove the symbolic links to the dependencies, because `helm dependency update` packages the dependencies into
    // `charts/`.
    if copied.join("charts").exists() {
        fs::remove_dir_all(copied.join("charts")).unwrap();
    }
    run(helm, home, &["dependency", "update", "--skip-refresh", copied.to_str().unwrap()]);
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(&path).unwrap(), target).unwrap();
        } else if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, target).unwrap();
        }
    }
}

async fn puller(helm: &Path, home: &Path) -> Arc<dyn Pull> {
    let program = helm::Program::find(Some(helm.to_owned()), home.join("helm")).await.unwrap();
    Arc::new(helm::pull::Puller::new(move |slot| program.command(slot)))
}

async fn obtain(cache: &Path, helm: &Path, url: &str, version: &str) -> Result<Chart, Error> {
    let source = Source::Repository { url: url.to_owned() };
    let store = Store::new(cache, source, Lock::default(), puller(helm, cache).await);
    store.obtain(&ChartRequest { version: Some(version.to_owned()), ..ChartRequest::locked("memcached") }).await
}

#[tokio::test]
async fn pulls_and_verifies_a_chart_from_a_repository() {
    let repository = Repository::start().await;
    for (major, helm) in helms() {
        let cache = TempDir::new().unwrap();
        let version = format!("2026.1.{major}+0ee5adeff");
        repository.publish(&helm, &stand_ins().join("memcached"), &version);
        let chart = obtain(cache.path(), &helm, &repository.url, &version).await.unwrap();
        assert_eq!((chart.name.as_str(), chart.version.as_str()), ("memcached", version.as_str()));
        run(&helm, cache.path(), &["template", "memcached", chart.path.to_str().unwrap()]);
        assert_eq!(
            fs::read_dir(cache.path().join("incoming")).unwrap().count(),
            0,
            "the pull must leave no temporary files"
        );

        let archive = repository.folder.path().join(format!("memcached-{version}.tgz"));
        fs::remove_file(&archive).unwrap();
        assert_eq!(
            obtain(cache.path(), &helm, &repository.url, &version).await.unwrap(),
            chart,
            "the store must use the cached chart, and not pull it again"
        );

        let changed = TempDir::new().unwrap();
        copy(&stand_ins(), changed.path());
        fs::write(changed.path().join("memcached/templates/more.yaml"), "# more\n").unwrap();
        repository.publish(&helm, &changed.path().join("memcached"), &version);
        fs::remove_file(&chart.path).unwrap();
        let error = obtain(cache.path(), &helm, &repository.url, &version).await.unwrap_err();
        assert_eq!(error.reason(), "ChartDigestMismatch", "helm {major}: {error}");
    }
}

/// A listener that accepts HTTPS connections with a certificate for the loopback address.
struct Https {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl Listener for Https {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        loop {
            let (stream, from) = self.listener.accept().await.unwrap();
            if let Ok(stream) = self.acceptor.accept(stream).await {
                return (stream, from);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl Https {
    /// Starts an HTTPS server for the files in a folder. The server redirects requests for `moved.tgz` to an
    /// unencrypted address. Returns the server's URL and its certificate in PEM.
    async fn serve(folder: &Path) -> (String, String) {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()).into();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = config.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let https = Self { listener, acceptor: TlsAcceptor::from(Arc::new(config)) };
        let moved = get(async || Redirect::temporary("http://charts.invalid/moved.tgz"));
        let files = Router::new().route("/moved.tgz", moved).route("/{file}", get(serve)).with_state(folder.to_owned());
        tokio::spawn(async move { axum::serve(https, files).await });
        (url, made.cert.pem())
    }
}

#[tokio::test]
async fn an_encrypted_repository_does_not_send_helm_to_an_unencrypted_address() {
    let folder = TempDir::new().unwrap();
    let (url, certificate) = Https::serve(folder.path()).await;
    let trusted = folder.path().join("ca.pem");
    fs::write(&trusted, certificate).unwrap();
    for (major, helm) in helms() {
        for (archive, named) in [
            ("http://charts.invalid/memcached.tgz".to_owned(), "http://charts.invalid/memcached.tgz"),
            (format!("{url}/moved.tgz"), "http://charts.invalid/moved.tgz"),
        ] {
            let chart = json!({"apiVersion": "v2", "name": "memcached", "version": "1.0.0", "urls": [archive]});
            let index = json!({"apiVersion": "v1", "entries": {"memcached": [chart]}});
            fs::write(folder.path().join("index.yaml"), index.to_string()).unwrap();
            let cache = TempDir::new().unwrap();
            let program = helm::Program::find(Some(helm.clone()), cache.path().join("helm")).await.unwrap();
            let trusted = trusted.clone();
            let puller = helm::pull::Puller::new(move |slot| {
                let mut command = program.command(slot);
                command.env("SSL_CERT_FILE", &trusted);
                command
            });
            let request = Request { repository: url.clone(), chart: "memcached".into(), version: "1.0.0".into() };
            let failure = puller.pull(&request, cache.path()).await.unwrap_err().to_string();
            let expected = format!("the repository sends helm to an unencrypted address (Get \"{named}\")");
            assert!(failure.contains(&expected), "helm {major}: {failure}");
        }
    }
}

#[tokio::test]
async fn reports_the_error_of_helm() {
    let repository = Repository::start().await;
    let url = repository.url.clone();
    for (major, helm) in helms() {
        let cache = TempDir::new().unwrap();
        repository.publish(&helm, &stand_ins().join("memcached"), "2026.1.5+0ee5adeff");
        for (url, version, reason, expected) in [
            (
                url.as_str(),
                "2026.1.6",
                "ChartVersionMissing",
                format!("chart memcached 2026.1.6 is not in {url}: the newest version is 2026.1.5+0ee5adeff; request an existing version, or add this version"),
            ),
            (
                &url,
                "2026.1.5",
                "ChartVersionMissing",
                format!("chart memcached 2026.1.5 is not in {url}: the repository returned 2026.1.5+0ee5adeff; request an existing version, or add this version"),
            ),
            (
                "http://127.0.0.1:1",
                "2026.1.5",
                "RepositoryUnreachable",
                "chart memcached 2026.1.5 cannot be pulled from http://127.0.0.1:1: looks like \"http://127.0.0.1:1\" is not a valid chart repository or cannot be reached: Get \"http://127.0.0.1:1/index.yaml\": dial tcp 127.0.0.1:1: connect: connection refused; check the address, the network and the proxy, or use a folder of charts, which `osdpl charts pull` or `helm pull` can fill (the operator retries automatically)".to_owned(),
            ),
        ] {
            let error = obtain(cache.path(), &helm, url, version).await.unwrap_err();
            assert_eq!((error.to_string(), error.reason()), (expected, reason), "helm {major}");
        }
    }
}

#[tokio::test]
async fn stand_in_folder_has_the_packaged_digest() {
    same_digests(&stand_ins()).await;
}

/// Verifies that osdpl computes the same digest for the folder and for the package of a real chart.
///
/// Runs only if `OSDPL_TEST_CHECKOUT` names a checkout of OpenStack-Helm.
#[tokio::test]
async fn real_chart_folder_has_the_packaged_digest() {
    match std::env::var_os("OSDPL_TEST_CHECKOUT") {
        Some(checkout) => same_digests(Path::new(&checkout)).await,
        None => eprintln!("skipped: OSDPL_TEST_CHECKOUT names no checkout of OpenStack-Helm"),
    }
}

async fn same_digests(folder: &Path) {
    for (major, helm) in helms() {
        let (cache, packaged, copied) = (TempDir::new().unwrap(), TempDir::new().unwrap(), TempDir::new().unwrap());
        let store = |folder: &Path| {
            Store::new(cache.path(), Source::Folder(folder.to_owned()), Lock::default(), Arc::new(NoPull))
        };
        for name in ["memcached", "nova"] {
            packable(&helm, cache.path(), &folder.join(name), copied.path());
            run(
                &helm,
                cache.path(),
                &["package", copied.path().join(name).to_str().unwrap(), "-d", packaged.path().to_str().unwrap()],
            );
            fs::remove_dir_all(copied.path()).unwrap();
            let wanted = ChartRequest::locked(name);
            let local = store(folder).obtain(&wanted).await.unwrap();
            let downloaded = store(packaged.path()).obtain(&wanted).await.unwrap();
            assert_eq!(local.digest, downloaded.digest, "{name}, helm {major}");
        }
    }
}

fn osdpl(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_osdpl")).arg("charts").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn commands_end_if_a_repository_never_responds() {
    // This repository never responds: the kernel accepts connections, but no program reads the requests.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (url, site) = (format!("http://{}", silent.local_addr().unwrap()), TempDir::new().unwrap());
    let (helm, cache) = (helms()[&4].clone(), site.path().display().to_string());
    let options = ["--charts", &url, "--allow-http-charts", "--cache", &cache, "--helm", helm.to_str().unwrap()];
    let options = [&options[..], &["--pull-timeout", "1"]].concat();
    let pulled = osdpl(&[&["pull", "--to", &cache, "memcached", "rabbitmq"][..], &options].concat());
    let errors = text(&pulled.stderr);
    assert_eq!(pulled.status.code(), Some(1), "{errors}");
    let expected = format!(
        "cannot be pulled from {url}: the repository sent no chart within 1 s; to wait longer, use --pull-timeout; check"
    );
    assert!(errors.contains(&expected), "{errors}");
    assert!(
        errors.contains(&format!("from {url}: it did not respond to an earlier request in time; check")),
        "{errors}"
    );

    let file = site.path().join("cloud.yaml");
    let cloud = "apiVersion: osdpl.dev/v1alpha1\nkind: OpenStackDeployment\nmetadata: {name: cloud, namespace: a}\n\
                 spec: {openstackRelease: '2026.1', presets: [core]}\n";
    fs::write(&file, cloud).unwrap();
    let mut plan = Command::new(env!("CARGO_BIN_EXE_osdpl"));
    plan.args(["plan", "--offline", "-f", file.to_str().unwrap()]).args(&options);
    let plan = plan.output().unwrap();
    let all = text(&plan.stdout) + &text(&plan.stderr);
    assert!(all.contains(&expected), "{all}");
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_pulls_and_lists_charts() {
    let repository = Repository::start().await;
    let (site, helm) = (TempDir::new().unwrap(), helms()[&4].clone());
    for chart in ["memcached", "rabbitmq"] {
        repository.publish(&helm, &stand_ins().join(chart), "2026.1.5+0ee5adeff");
    }
    let path = |name: &str| site.path().join(name).display().to_string();
    let (cache, out, to) = (path("cache"), path("out"), path("to"));
    let helm = helm.to_str().unwrap();
    let common = ["--charts", &repository.url, "--allow-http-charts", "--cache", &cache, "--helm", helm];

    let locked = osdpl(&[&["lock", "--out", &out, "memcached", "rabbitmq", "nothing"][..], &common].concat());
    assert_eq!(locked.status.code(), Some(1));
    assert!(
        text(&locked.stderr)
            .starts_with(&format!("chart nothing from {}: chart \"nothing\" not found in", repository.url)),
        "{}",
        text(&locked.stderr)
    );
    assert!(
        text(&locked.stderr).ends_with("osdpl: 1 of 3 charts could not be locked; see the errors above\n"),
        "{}",
        text(&locked.stderr)
    );
    let lock = Lock::parse("lock.yaml", &fs::read_to_string(site.path().join("out/lock.yaml")).unwrap()).unwrap();
    let pinned = &lock.charts["memcached"];
    assert_eq!(
        (pinned.version.as_str(), pinned.repository.as_deref()),
        ("2026.1.5+0ee5adeff", Some(repository.url.as_str()))
    );
    let keys = fs::read_to_string(site.path().join("out/keys/memcached.json")).unwrap();
    assert!(keys.contains("\n \"pod\": {\n"), "{keys}");

    let lock_file = path("out/lock.yaml");
    let pulled = osdpl(&[&["pull", "--to", &to, "--lock", &lock_file][..], &common].concat());
    assert!(pulled.status.success(), "{}", text(&pulled.stderr));
    let list = ["list", "--charts", &to, "--lock", &lock_file, "--cache", &cache];
    let refused = text(&osdpl(&list).stderr);
    let expected = format!("{lock_file}: charts.memcached.repository: charts: \"{}\" is not encrypted", repository.url);
    assert!(refused.contains(&expected) && refused.contains("--allow-http-charts"), "{refused}");
    let listed = osdpl(&[&list[..], &["--allow-http-charts"]].concat());
    let rows: Vec<_> =
        text(&listed.stdout).lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let digest = pinned.digest.as_ref().unwrap();
    let row = format!("memcached 2026.1.5+0ee5adeff {digest} {to}/memcached-2026.1.5+0ee5adeff.tgz as locked");
    assert_eq!(
        (rows.len(), rows[0].as_str(), rows[1].as_str()),
        (3, "NAME VERSION DIGEST FROM LOCK", row.as_str()),
        "{}",
        text(&listed.stderr)
    );
    let locked = osdpl(&["list", "--helm", "/nowhere/helm", "--cache", &cache]);
    assert!(locked.status.success() && text(&locked.stdout).contains("\nkeystone "), "{}", text(&locked.stderr));
}

#[test]
fn lists_which_charts_have_a_locked_digest() {
    let site = TempDir::new().unwrap();
    let path = |name: &str| site.path().join(name).display().to_string();
    let (lock, cache) = (path("lock.yaml"), path("cache"));
    let digest = format!("sha256:{}", "0".repeat(64));
    let entries = format!("a: {{version: 1.0.0}}, b: {{version: 1.0.0, digest: '{digest}'}}");
    fs::write(&lock, format!("charts: {{{entries}}}\n")).unwrap();
    let listed = osdpl(&["list", "--charts", "https://charts.example", "--lock", &lock, "--cache", &cache]);
    let states: Vec<_> = text(&listed.stdout)
        .lines()
        .skip(1)
        .filter_map(|line| Some(line.split_once("https://charts.example")?.1.trim().to_owned()))
        .collect();
    let expected = ["the locked version; the lock has no digest for it", "as locked"];
    assert_eq!(states, expected, "{}", text(&listed.stderr));
}
