//! The options with which users control how the operator probes the APIs of OpenStack services.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::{ArgAction, Args};

use osdpl_client::{HttpConfig, Permit};
use osdpl_operator::lease::Leadership;
use osdpl_operator::probe_thread::ProbeThread;
use osdpl_operator::tasks::{PROBE_PERIOD, PROBE_TIMEOUT, Probing};

#[derive(Args)]
pub(crate) struct Probes {
    /// Whether to probe the APIs of services.
    #[arg(long = "probes", env = "OSDPL_PROBES", value_name = "BOOLEAN", default_value_t = true, action = ArgAction::Set)]
    enabled: bool,
    /// Seconds between two probes of a healthy API.
    #[arg(long, env = "OSDPL_PROBE_PERIOD", value_name = "SECONDS", default_value_t = PROBE_PERIOD.as_secs(), value_parser = clap::value_parser!(u64).range(1..))]
    probe_period: u64,
    /// Timeout of a probe in seconds.
    #[arg(long, env = "OSDPL_PROBE_TIMEOUT", value_name = "SECONDS", default_value_t = PROBE_TIMEOUT.as_secs(), value_parser = clap::value_parser!(u64).range(1..))]
    probe_timeout: u64,
    /// File with PEM certificates of CAs that probes trust in addition to the system's CAs, for internal endpoints with
    /// TLS.
    #[arg(long, env = "OSDPL_PROBE_CA", value_name = "FILE")]
    probe_ca: Option<PathBuf>,
    /// Send all probes to this address instead of the address of each API; only for tests.
    #[arg(long, env = "OSDPL_PROBE_ADDRESS", value_name = "HOST:PORT", hide = true)]
    probe_address: Option<String>,
}

impl Probes {
    /// Returns the settings of the task that probes the APIs of OpenStack services; `None` if the user disabled
    /// probing.
    pub(crate) fn probing(&self, http_config: &HttpConfig, thread: &ProbeThread) -> Option<Probing> {
        let (period, runtime) = (Duration::from_secs(self.probe_period), thread.runtime().clone());
        self.enabled.then(|| Probing { reach: http_config.clone(), period, runtime })
    }

    /// Returns the settings of the HTTP client with which the active operator calls the APIs of OpenStack services.
    /// Reads the certificates from the file of `--probe-ca`.
    #[allow(clippy::disallowed_methods, reason = "the command line reads the file that its user names")]
    pub(crate) fn http_config(&self, leadership: Leadership) -> anyhow::Result<HttpConfig> {
        let read =
            |file: &PathBuf| std::fs::read(file).with_context(|| format!("reading {} of --probe-ca", file.display()));
        Ok(HttpConfig {
            address: self.probe_address.clone(),
            timeout: Duration::from_secs(self.probe_timeout),
            ca: self.probe_ca.as_ref().map(read).transpose()?.unwrap_or_default(),
            permit: Permit::new(move || leadership.may_write()),
        })
    }
}
