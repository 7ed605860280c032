//! Starts a cluster: writes its files, starts its programs in order, and creates its nodes and StorageClass.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use super::{Children, seed, state};
use crate::components::Component;
use crate::programs::{Program, Recipe};
use crate::{Error, client, kubeconfig, pki, stages};

/// The timeout for a program to become ready. It is long, because the machine may compile code at the same time.
const TIMEOUT: Duration = Duration::from_mins(2);
/// The interval at which the supervisor asks etcd and the API server whether they are ready. Polling is necessary: with
/// `sd_notify(3)`, the API server reports only that it listens, and etcd does not report its health.
const INTERVAL: Duration = Duration::from_millis(20);

/// Starts all programs, and returns when pods can be created.
pub(super) async fn boot(children: &mut Children) -> Result<(), Error> {
    prepare(children)?;
    children.start(Component::Etcd)?;
    wait_for_etcd(children).await?;
    start_apiserver(children).await?;
    simulate(children).await?;
    for component in [Component::ControllerManager, Component::Scheduler, Component::Kwok] {
        children.start(component)?;
    }
    state(children, false)?.write(&children.folder)?;
    let client = client::for_kubeconfig(&children.folder.kubeconfig_of("seed")).await?;
    let seeded = tokio::time::timeout(TIMEOUT, seed::seed(&client, &children.spec.nodes)).await;
    seeded.unwrap_or_else(|_| Err(late(children, Component::ControllerManager)))?;
    state(children, true)?.write(&children.folder)
}

/// Starts two tasks for behaviour that kwok does not simulate. One makes pods wait for the objects that they need
/// before they start. The other serves the logs of pods.
async fn simulate(children: &Children) -> Result<(), Error> {
    let client = client::for_kubeconfig(&children.folder.kubeconfig_of("waits")).await?;
    tokio::spawn(crate::waits::run(client.clone()));
    let (folder, port) = (children.folder.clone(), children.ports.kubelet);
    tokio::spawn(async move {
        if let Err(error) = crate::kubelet::serve(&folder, port, client).await {
            eprintln!("logs of pods are not available, because their server has ended: {error}");
        }
    });
    Ok(())
}

/// Writes the files that the programs read: certificates, kubeconfigs and kwok's stages.
fn prepare(children: &Children) -> Result<(), Error> {
    let folder = &children.folder;
    pki::write(folder, &pki::SERVERS, &pki::CLIENTS)?;
    let server = format!("https://127.0.0.1:{}", children.ports.apiserver);
    kubeconfig::write(folder, &folder.kubeconfig(), &server, "admin")?;
    for name in ["kube-controller-manager", "kube-scheduler", "kwok", "waits", "seed"] {
        kubeconfig::write(folder, &folder.kubeconfig_of(name), &server, name)?;
    }
    let version = format!("v{}", Recipe::of(Program::KubeApiserver).version);
    stages::write(folder, children.ports, &version)?;
    children.spec.programs.link(folder)?;
    state(children, false)?.write(folder)
}

async fn wait_for_etcd(children: &mut Children) -> Result<(), Error> {
    let started = Instant::now();
    while !is_healthy(children.ports.etcd).await {
        still_coming(children, Component::Etcd, started)?;
        sleep(INTERVAL).await;
    }
    Ok(())
}

/// Returns whether etcd reports that it is healthy. The function writes the HTTP request to a socket, so that this
/// crate does not need an HTTP client for a single request.
async fn is_healthy(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)).await else { return false };
    let request = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let mut answer = String::new();
    stream.write_all(request).await.is_ok()
        && stream.read_to_string(&mut answer).await.is_ok()
        && answer.contains(r#""health":"true""#)
}

/// Starts the API server, for the first time or after it was killed, and waits until it is ready.
pub(super) async fn start_apiserver(children: &mut Children) -> Result<(), Error> {
    children.start(Component::Apiserver)?;
    let client = client::for_kubeconfig(&children.folder.kubeconfig_of("seed")).await?;
    let started = Instant::now();
    while !client::is_ready(&client).await {
        still_coming(children, Component::Apiserver, started)?;
        sleep(INTERVAL).await;
    }
    Ok(())
}

/// Returns an error if the component has exited, or if [`TIMEOUT`] has passed since `started`. Callers use this
/// function while they wait until the component is ready.
fn still_coming(children: &mut Children, component: Component, started: Instant) -> Result<(), Error> {
    if let Some(status) = children.died(component) {
        return Err(children.boot_error(component, &format!("it ended with {status}")));
    }
    if started.elapsed() > TIMEOUT { Err(late(children, component)) } else { Ok(()) }
}

fn late(children: &Children, component: Component) -> Error {
    children.boot_error(component, &format!("not ready after {} s", TIMEOUT.as_secs()))
}
