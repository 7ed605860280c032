//! Connects to the cluster, or explains why that fails.

use std::error::Error as _;
use std::ffi::OsStr;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use kube::Config;
use kube::config::{ExecInteractiveMode, KubeConfigOptions, Kubeconfig, KubeconfigError};

use super::duration;
use super::input::ReadError;
use super::kubeconfig;
use osdpl_client::{Bounds, Buffers, bounded, connect, describe_failure, refusal};
use osdpl_core::catalog::did_you_mean;

/// The URL of the API server that this process uses, and the names of the options with which the user can select
/// another API server. Error messages contain the URL and these option names.
static SERVER: OnceLock<(String, &str)> = OnceLock::new();

/// Stores the URL of the API server, and the names of the options that select another API server, for the messages of
/// [`readable`].
pub(crate) fn remember_server(config: &Config, options: &'static str) {
    let _ = SERVER.set((config.cluster_url.to_string().trim_end_matches('/').to_owned(), options));
}

/// The options that select a cluster. kubectl has the same options, but does not pass their values to plugins.
#[derive(Args, Clone, Debug)]
pub(crate) struct ClusterOption {
    /// The kubeconfig file; default: KUBECONFIG or ~/.kube/config, as for kubectl.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context in the kubeconfig file; default: the current context.
    #[arg(long)]
    context: Option<String>,
    /// The time to wait for each response of the API server, and for the credential plugin of the kubeconfig: a span
    /// such as 1m or 30s, or a number of seconds; 0 for no limit. If a watch of a resource reports nothing for this
    /// time, the command reads the resource. The command fails if this read takes too long, too.
    #[arg(long, value_name = "SPAN", default_value = "30s", value_parser = duration::parse_limit)]
    request_timeout: Duration,
}

impl ClusterOption {
    /// Whether an option or KUBECONFIG selects a cluster.
    pub(crate) fn is_selected(&self) -> bool {
        self.kubeconfig.is_some() || self.context.is_some() || kubeconfig::from_environment().is_some()
    }

    /// Returns the options `--kubeconfig` and `--context` that the user set, as arguments for another command.
    pub(crate) fn selection(&self) -> Vec<&OsStr> {
        let kubeconfig = self.kubeconfig.iter().flat_map(|file| [OsStr::new("--kubeconfig"), file.as_os_str()]);
        let context = self.context.iter().flat_map(|context| [OsStr::new("--context"), OsStr::new(context)]);
        kubeconfig.chain(context).collect()
    }

    /// Returns a client for the selected cluster; by default, the cluster that kubectl would use.
    pub(crate) async fn client(&self) -> anyhow::Result<kube::Client> {
        self.bounded_client(Bounds { gives_up: true, ..Bounds::new(self.timeout()) }).await
    }

    /// Returns a client for requests that the API server forwards to Services. A Service that takes longer than
    /// `timeout` does not keep the client from sending further requests.
    pub(crate) async fn patient_client(&self, timeout: Duration) -> anyhow::Result<kube::Client> {
        self.bounded_client(Bounds { pauses: &[], ..Bounds::new(timeout) }).await
    }

    async fn bounded_client(&self, bounds: Bounds) -> anyhow::Result<kube::Client> {
        let mut config = self.config().await?;
        remember_server(&config, "--kubeconfig, --context");
        let timeout = self.timeout();
        config.connect_timeout = Some(timeout);
        let read_timeout = bounds.timeout;
        let create = move |config| connect(config, read_timeout, Buffers::Growing);
        Ok(bounded(create_clients(config, timeout, create).await?, bounds))
    }

    /// Returns the time limit of each request to the API server.
    pub(crate) fn timeout(&self) -> Duration {
        self.request_timeout
    }

    async fn config(&self) -> anyhow::Result<Config> {
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        if let Some(file) = &self.kubeconfig {
            let kubeconfig = kubeconfig::read_from(file).map_err(|error| unreadable(file, error))?;
            let config = Config::from_custom_kubeconfig(kubeconfig.clone(), &options).await;
            return config.map_err(|error| unusable(&file.display().to_string(), &kubeconfig, &error));
        }
        let inferred = match &self.context {
            Some(_) => kubeconfig::from_files(&options).await.ok(),
            None => kubeconfig::infer().await.ok(),
        };
        match inferred {
            Some(config) => Ok(config),
            None => Err(self.explain_failure(&options).await),
        }
    }

    /// Returns an error that explains why the user's kubeconfig files select no cluster.
    async fn explain_failure(&self, options: &KubeConfigOptions) -> anyhow::Error {
        let (files, reason) = kubeconfig::files();
        let existing: Vec<&PathBuf> = files.iter().filter(|file| file.exists()).collect();
        let names =
            |files: &[&PathBuf]| files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ");
        if existing.is_empty() {
            let all: Vec<&PathBuf> = files.iter().collect();
            return anyhow!(
                "no cluster to connect to: there is no kubeconfig {} ({reason}), and this is not a pod; name one with --kubeconfig, or in KUBECONFIG",
                names(&all)
            );
        }
        for file in &existing {
            if let Err(error) = kubeconfig::read_from(file) {
                return unreadable(file, error);
            }
        }
        match (kubeconfig::read(), kubeconfig::from_files(options).await) {
            (Ok(kubeconfig), Err(kubeconfig::Error::Select(error))) => unusable(&names(&existing), &kubeconfig, &error),
            (Err(error), _) | (_, Err(error)) => {
                anyhow!("the kubeconfig {} can't be used: {error}; correct it", names(&existing))
            }
            (Ok(_), Ok(_)) => anyhow!("the kubeconfig {} changed while it was read; try again", names(&existing)),
        }
    }
}

/// Calls `create`, which creates clients for the API server.
///
/// If the kubeconfig has a credential plugin, kube runs the plugin while it creates a client, and blocks the thread
/// until the plugin has ended. So this function then calls `create` on a thread for blocking work, and returns an error
/// after `limit`. There is no limit if the plugin can ask a person to log in.
///
/// When the plugin's token expires, kube runs the plugin again before it sends a request, also on a thread for blocking
/// work. The plugin's time then counts towards the time limit of the request. If the plugin does not end, the error
/// says that the API server does not answer. The runtime has only one thread for blocking work, so an operator that a
/// person started with such a kubeconfig can't do other blocking work either. It can't renew its Lease, and ends.
///
/// # Errors
/// Returns an error if no client can be created, or the credential plugin takes longer than `limit`.
pub(crate) async fn create_clients<T: Send + 'static>(
    config: Config,
    limit: Duration,
    create: impl FnOnce(Config) -> Result<T, kube::Error> + Send + 'static,
) -> anyhow::Result<T> {
    let plugin = credential_plugin(&config).filter(|_| !is_interactive(&config));
    let Some(plugin) = plugin else { return create(config).map_err(readable) };
    match tokio::time::timeout(limit, tokio::task::spawn_blocking(move || create(config))).await {
        Ok(created) => created?.map_err(readable),
        Err(_) => Err(anyhow!(
            "the credential plugin {plugin:?} of the kubeconfig did not answer within {} s; run it by hand to find out \
             what it waits for (commands wait longer with --request-timeout)",
            limit.as_secs()
        )),
    }
}

/// Returns the command of the kubeconfig's credential plugin; `None` if the user of the kubeconfig has no plugin.
fn credential_plugin(config: &Config) -> Option<String> {
    let user = &config.auth_info;
    let command = user.exec.as_ref().and_then(|exec| exec.command.clone());
    // `cmd-path` is the command of the auth provider `gcp`.
    command.or_else(|| user.auth_provider.as_ref()?.config.get("cmd-path").cloned())
}

/// Whether the credential plugin can ask a person to log in: stdin is a terminal, and the kubeconfig allows it.
fn is_interactive(config: &Config) -> bool {
    let mode = config.auth_info.exec.as_ref().and_then(|exec| exec.interactive_mode.as_ref());
    std::io::stdin().is_terminal() && mode != Some(&ExecInteractiveMode::Never)
}

/// Returns the error for a readable kubeconfig that selects no cluster, for example because it lacks the requested
/// context.
fn unusable(name: &str, kubeconfig: &Kubeconfig, error: &KubeconfigError) -> anyhow::Error {
    let names = || kubeconfig.contexts.iter().map(|context| context.name.as_str());
    let all = names().collect::<Vec<_>>().join(", ");
    let choose = if all.is_empty() {
        "it has no contexts, so name another kubeconfig with --kubeconfig".to_owned()
    } else {
        format!("choose one of its contexts with --context: {all}")
    };
    match error {
        KubeconfigError::CurrentContextNotSet => {
            anyhow!("the kubeconfig {name} has no current context; {choose}")
        }
        KubeconfigError::LoadContext(context) => {
            let hint = did_you_mean(context, names());
            anyhow!("the kubeconfig {name} has no context {context:?}{hint}; {choose}")
        }
        other => {
            anyhow!("the kubeconfig {name} can't be used: {other}; correct it, or name another with --kubeconfig")
        }
    }
}

/// Whether a kubeconfig file or the pod's environment names a cluster. True even if the kubeconfig is invalid, or if
/// the cluster is unreachable.
pub(crate) fn is_configured() -> bool {
    let in_files = match kubeconfig::read() {
        Ok(kubeconfig) => !kubeconfig.clusters.is_empty(),
        Err(_) => kubeconfig::files().0.iter().any(|file| file.exists()),
    };
    in_files || std::env::var_os("KUBERNETES_SERVICE_HOST").is_some()
}

/// Returns the error for a file that can't be read, or that is not a kubeconfig.
fn unreadable(file: &Path, error: kubeconfig::Error) -> anyhow::Error {
    match error {
        kubeconfig::Error::Read { error, .. } => {
            ReadError::new(format_args!("the kubeconfig {}", file.display()), &error).into()
        }
        other => anyhow!("this is not a kubeconfig: {other}; correct it, or name another with --kubeconfig"),
    }
}

/// Converts an error of kube to a message for the user: the API server's message or, if the API server did not respond,
/// the URL of the API server and the cause.
pub(crate) fn readable(error: kube::Error) -> anyhow::Error {
    match error {
        // The API server sends this message if the CRD of the requested kind is not installed.
        kube::Error::Api(status) if status.message.trim() == "404 page not found" => anyhow!(
            "the cluster does not know this kind (404 page not found); install the operator's chart, or only its CRDs: osdpl crd | kubectl apply --server-side -f -"
        ),
        kube::Error::Api(status) if status.code >= 500 => {
            let failure = describe_failure(&status);
            let Some((server, options)) = SERVER.get() else { return anyhow!("{failure}") };
            anyhow!(
                "the API server at {server} can't process the request: {failure}; check the server and its load balancer, and try again, or choose another server ({options})"
            )
        }
        kube::Error::Api(status) => anyhow!("{}", refusal(&status)),
        error @ (kube::Error::Service(_) | kube::Error::HyperError(_)) => {
            let Some((server, options)) = SERVER.get() else { return error.into() };
            let why = root(&error).map_or_else(|| error.to_string(), ToString::to_string);
            anyhow!(
                "the API server at {server} does not answer: {why}; check that it runs, and that it is the right one ({options})"
            )
        }
        other => other.into(),
    }
}

/// Whether a request failed because the API server did not respond in time.
pub(crate) fn is_timeout(error: &kube::Error) -> bool {
    let root = root(error).and_then(|root| root.downcast_ref::<std::io::Error>());
    root.is_some_and(|root| root.kind() == std::io::ErrorKind::TimedOut)
}

/// Returns the error at the end of the chain of sources, which is the original cause.
fn root(error: &kube::Error) -> Option<&(dyn std::error::Error + 'static)> {
    let mut root = error.source();
    while let Some(source) = root.and_then(std::error::Error::source) {
        root = Some(source);
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;

    const KUBECONFIG: &str = "apiVersion: v1\nkind: Config\ncontexts: [{name: lab, context: {cluster: lab, user: me}}]\nusers: [{name: me, user: {token: hunter2}}]\n";

    async fn refused(text: &str, context: Option<&str>) -> String {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kubeconfig");
        if !text.is_empty() {
            std::fs::write(&file, text).unwrap();
        }
        let option = ClusterOption {
            kubeconfig: Some(file.clone()),
            context: context.map(str::to_owned),
            request_timeout: Duration::from_secs(1),
        };
        let error = format!("{:#}", option.client().await.err().unwrap());
        error.replace(&file.display().to_string(), "FILE")
    }

    #[test]
    fn limits_requests_to_half_a_minute() {
        #[derive(clap::Parser)]
        struct Arguments {
            #[command(flatten)]
            cluster: ClusterOption,
        }
        let arguments: Arguments = clap::Parser::parse_from(["osdpl"]);
        assert_eq!(arguments.cluster.timeout(), Duration::from_secs(30));
    }

    #[tokio::test]
    async fn explains_unusable_kubeconfigs_without_their_content() {
        for (text, context, expected) in [
            ("", None, "reading the kubeconfig FILE: there is no such file; name an existing one"),
            ("token: hunter2\na: [", None, "this is not a kubeconfig: FILE:2:4: unclosed bracket '['; correct it"),
            ("contexts: hunter2\n", None, "this is not a kubeconfig: FILE:1:1: "),
            (
                KUBECONFIG,
                None,
                "the kubeconfig FILE has no current context; choose one of its contexts with --context: lab",
            ),
            (
                KUBECONFIG,
                Some("alb"),
                "the kubeconfig FILE has no context \"alb\" (did you mean \"lab\"?); choose one of its contexts with --context: lab",
            ),
            (KUBECONFIG, Some("lab"), "the kubeconfig FILE can't be used: failed to load the cluster of context: lab"),
        ] {
            let error = refused(text, context).await;
            assert!(error.starts_with(expected) && !error.contains("hunter2"), "{error}\n{expected}");
        }
    }
}
