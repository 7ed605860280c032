//! Limits how long a command waits for chart repositories.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use osdpl_operator::charts::Pull;
use osdpl_operator::charts::pull::{PullFailure, Request};

/// Pulls charts with a time limit for each pull. After one pull from a repository has exceeded the limit, all later
/// pulls from this repository fail at once. So a command for many charts does not wait for each chart.
pub(crate) struct LimitedPull<P> {
    pull: P,
    limit: Duration,
    /// The URLs of the repositories from which a pull has exceeded the time limit.
    silent: Mutex<BTreeSet<String>>,
}

impl<P> LimitedPull<P> {
    pub(crate) fn new(pull: P, limit: Duration) -> Self {
        Self { pull, limit, silent: Mutex::default() }
    }

    fn silent(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn limited<T>(
        &self,
        repository: &str,
        pull: impl Future<Output = Result<T, PullFailure>>,
    ) -> Result<T, PullFailure> {
        if self.silent().contains(repository) {
            return Err(PullFailure::Unreachable("it did not respond to an earlier request in time".to_owned()));
        }
        tokio::time::timeout(self.limit, pull).await.unwrap_or_else(|_| {
            self.silent().insert(repository.to_owned());
            let limit = self.limit.as_secs();
            Err(PullFailure::Unreachable(format!(
                "the repository sent no chart within {limit} s; to wait longer, use --pull-timeout"
            )))
        })
    }
}

impl<P: Pull> Pull for LimitedPull<P> {
    fn pull<'a>(&'a self, request: &'a Request, into: &'a Path) -> BoxFuture<'a, Result<PathBuf, PullFailure>> {
        self.limited(&request.repository, self.pull.pull(request, into)).boxed()
    }

    fn newest<'a>(&'a self, repository: &'a str, chart: &'a str) -> BoxFuture<'a, Result<String, PullFailure>> {
        self.limited(repository, self.pull.newest(repository, chart)).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fake puller. Its method `newest` answers only for the repository `good`. For any other repository, the request
    /// never ends.
    struct Fake;

    impl Pull for Fake {
        fn pull<'a>(&'a self, _: &'a Request, into: &'a Path) -> BoxFuture<'a, Result<PathBuf, PullFailure>> {
            std::future::ready(Ok(into.to_owned())).boxed()
        }

        fn newest<'a>(&'a self, repository: &'a str, _: &'a str) -> BoxFuture<'a, Result<String, PullFailure>> {
            let is_good = repository == "good";
            async move { if is_good { Ok("1".to_owned()) } else { std::future::pending().await } }.boxed()
        }
    }

    #[tokio::test]
    async fn a_silent_repository_delays_a_command_only_once() {
        let charts = LimitedPull::new(Fake, Duration::from_millis(1));
        let failure = charts.newest("silent", "a").await.unwrap_err().to_string();
        assert!(
            failure.contains("(the repository sent no chart within 0 s; to wait longer, use --pull-timeout)"),
            "{failure}"
        );
        let request =
            |repository: &str| Request { repository: repository.into(), chart: "b".into(), version: "1".into() };
        let failure = charts.pull(&request("silent"), Path::new("b")).await.unwrap_err().to_string();
        assert!(failure.contains("(it did not respond to an earlier request in time)"), "{failure}");
        assert_eq!(charts.pull(&request("good"), Path::new("b")).await, Ok("b".into()));
        assert_eq!(charts.newest("good", "a").await, Ok("1".to_owned()));
    }
}
