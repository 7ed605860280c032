//! Which cluster is meant, and why it can't be spoken to.

use std::error::Error as _;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::anyhow;
use clap::Args;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};

use super::common::Unread;
use osdpl_core::catalog::did_you_mean;
use osdpl_values::yaml;

/// The API server that is spoken to, for people, and what names another: one a process.
static SERVER: OnceLock<(String, &str)> = OnceLock::new();

/// Remembers for [`readable`] which server is spoken to, and what names another.
pub fn speaks_to(config: &Config, named_by: &'static str) {
    let _ = SERVER.set((config.cluster_url.to_string().trim_end_matches('/').to_owned(), named_by));
}

/// Which cluster is meant; kubectl hands its own options to no plugin.
#[derive(Args, Clone, Debug)]
pub struct ClusterOption {
    /// The kubeconfig file; KUBECONFIG and ~/.kube/config as kubectl does where unset.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context in it; the current one where unset.
    #[arg(long)]
    context: Option<String>,
}

impl ClusterOption {
    /// Whether a cluster was named, by an option or by KUBECONFIG.
    pub fn is_named(&self) -> bool {
        self.kubeconfig.is_some() || self.context.is_some() || from_environment().is_some()
    }

    /// A client for the cluster that kubectl would speak to.
    pub async fn client(&self) -> anyhow::Result<kube::Client> {
        let config = self.config().await?;
        speaks_to(&config, "--kubeconfig, --context");
        kube::Client::try_from(config).map_err(readable)
    }

    async fn config(&self) -> anyhow::Result<Config> {
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        if let Some(file) = &self.kubeconfig {
            let read = Kubeconfig::read_from(file).map_err(|error| unread(file, error))?;
            let found = Config::from_custom_kubeconfig(read.clone(), &options).await;
            return found.map_err(|error| unfit(&file.display().to_string(), &read, &error));
        }
        let inferred = match &self.context {
            Some(_) => Config::from_kubeconfig(&options).await.ok(),
            None => Config::infer().await.ok(),
        };
        match inferred {
            Some(config) => Ok(config),
            None => Err(self.why_not(&options).await),
        }
    }

    /// Why no cluster follows from the files that kubectl would read.
    async fn why_not(&self, options: &KubeConfigOptions) -> anyhow::Error {
        let (files, said) = looked_at();
        let there: Vec<&PathBuf> = files.iter().filter(|file| file.exists()).collect();
        let names =
            |files: &[&PathBuf]| files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ");
        if there.is_empty() {
            let all: Vec<&PathBuf> = files.iter().collect();
            return anyhow!(
                "no cluster to speak to: there is no kubeconfig {} ({said}), and this is not a pod; name one with --kubeconfig, or in KUBECONFIG",
                names(&all)
            );
        }
        for file in &there {
            if let Err(error) = Kubeconfig::read_from(file) {
                return unread(file, error);
            }
        }
        match (Kubeconfig::read(), Config::from_kubeconfig(options).await) {
            (Ok(read), Err(error)) => unfit(&names(&there), &read, &error),
            (Err(error), _) => anyhow!("the kubeconfig {} can't be used: {error}; correct it", names(&there)),
            (Ok(_), Ok(_)) => anyhow!("the kubeconfig {} changed just now; try again", names(&there)),
        }
    }
}

/// A kubeconfig that could be read, and names no cluster.
fn unfit(place: &str, read: &Kubeconfig, error: &KubeconfigError) -> anyhow::Error {
    let names = || read.contexts.iter().map(|context| context.name.as_str());
    let all = names().collect::<Vec<_>>().join(", ");
    let there = if all.is_empty() { "it has none".to_owned() } else { format!("it has {all}") };
    match error {
        KubeconfigError::CurrentContextNotSet => {
            anyhow!("the kubeconfig {place} has no current context: name one with --context; {there}")
        }
        KubeconfigError::LoadContext(name) => {
            let hint = did_you_mean(name, names());
            anyhow!("the kubeconfig {place} has no context {name:?}{hint}; {there}: name one with --context")
        }
        other => {
            anyhow!("the kubeconfig {place} can't be used: {other}; correct it, or name another with --kubeconfig")
        }
    }
}

/// Whether there is a cluster that kubectl would speak to, reachable or not: one in a kubeconfig, which may be wrong, or that of the pod this runs in.
pub fn is_configured() -> bool {
    let in_files = match Kubeconfig::read() {
        Ok(read) => !read.clusters.is_empty(),
        Err(_) => looked_at().0.iter().any(|file| file.exists()),
    };
    in_files || std::env::var_os("KUBERNETES_SERVICE_HOST").is_some()
}

/// What KUBECONFIG says; an empty one is as good as none, as it is to kubectl.
fn from_environment() -> Option<OsString> {
    std::env::var_os("KUBECONFIG").filter(|text| !text.is_empty())
}

/// The files that kubectl would read, and why these.
fn looked_at() -> (Vec<PathBuf>, &'static str) {
    if let Some(text) = from_environment() {
        let files = std::env::split_paths(&text).filter(|path| path.as_os_str() != "").collect();
        return (files, "KUBECONFIG names it");
    }
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    (vec![home.join(".kube/config")], "KUBECONFIG is not set")
}

/// A file that is there, or was named, and is no kubeconfig. What is in it never shows: there are tokens.
#[allow(clippy::disallowed_methods, reason = "the command line reads the file that its user names")]
fn unread(file: &Path, error: KubeconfigError) -> anyhow::Error {
    let place = file.display().to_string();
    match error {
        KubeconfigError::ReadConfig(error, _) => Unread::new(format_args!("the kubeconfig {place}"), &error).into(),
        other => {
            let text = std::fs::read_to_string(file).unwrap_or_default();
            let said = other.to_string();
            let why = yaml::parse::<serde_json::Value>(&place, &text).err().map_or_else(
                || format!("{place}: {}", said.lines().next().unwrap_or_default()),
                |error| error.to_string(),
            );
            anyhow!("this is no kubeconfig: {why}; correct it, or name another with --kubeconfig")
        }
    }
}

/// The API server's own words, where there are some; where there are none, which server is silent, and why.
pub fn readable(error: kube::Error) -> anyhow::Error {
    match error {
        // What the API server says of a kind that it has never heard of.
        kube::Error::Api(status) if status.message.trim() == "404 page not found" => anyhow!(
            "the cluster does not know this kind (404 page not found); install the operator's chart, or its definitions alone: osdpl crd | kubectl apply --server-side -f -"
        ),
        kube::Error::Api(status) => anyhow!("{}", status.message),
        error @ (kube::Error::Service(_) | kube::Error::HyperError(_)) => {
            let Some((server, named_by)) = SERVER.get() else { return error.into() };
            let mut deepest = error.source();
            while let Some(deeper) = deepest.and_then(std::error::Error::source) {
                deepest = Some(deeper);
            }
            let why = deepest.map_or_else(|| error.to_string(), ToString::to_string);
            anyhow!(
                "the API server at {server} does not answer: {why}; look whether it runs, and whether it is the one that is meant ({named_by})"
            )
        }
        other => other.into(),
    }
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
        let option = ClusterOption { kubeconfig: Some(file.clone()), context: context.map(str::to_owned) };
        let said = format!("{:#}", option.client().await.err().unwrap());
        said.replace(&file.display().to_string(), "FILE")
    }

    #[tokio::test]
    async fn a_kubeconfig_that_is_of_no_use_is_named_with_what_to_do_and_nothing_of_it_shows() {
        for (text, context, told) in [
            ("", None, "reading the kubeconfig FILE: there is no such file; name one that is there"),
            ("token: hunter2\na: [", None, "this is no kubeconfig: FILE:2:4: unclosed bracket '['; correct it"),
            ("contexts: hunter2\n", None, "this is no kubeconfig: FILE: failed to parse"),
            (KUBECONFIG, None, "the kubeconfig FILE has no current context: name one with --context; it has lab"),
            (
                KUBECONFIG,
                Some("alb"),
                "the kubeconfig FILE has no context \"alb\", did you mean \"lab\"?; it has lab: name",
            ),
            (KUBECONFIG, Some("lab"), "the kubeconfig FILE can't be used: failed to load the cluster of context: lab"),
        ] {
            let said = refused(text, context).await;
            assert!(said.starts_with(told) && !said.contains("hunter2"), "{said}\n{told}");
        }
    }
}
