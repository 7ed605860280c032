//! A plan in one sentence.

use super::shown::{Kind, Shown};

impl Shown {
    /// How many releases would be changed, and how the others are.
    pub(super) fn summary(&self) -> String {
        let count = |kind: Kind| self.releases.iter().filter(|line| line.kind == kind).count();
        if self.is_offline {
            return format!("{} would be installed.", releases(self.releases.len()));
        }
        let (ready, act, settle, wait) = (count(Kind::Ready), count(Kind::Do), count(Kind::Settle), count(Kind::Wait));
        match (act, settle, wait) {
            (0, 0, 0) => format!(
                "Nothing to do: {} ready.",
                if ready == 1 { "1 release is".into() } else { format!("{ready} releases are") }
            ),
            _ => format!(
                "{} would be changed now; waiting: {wait}, becoming ready: {settle}, ready: {ready}.",
                releases(act)
            ),
        }
    }
}

fn releases(count: usize) -> String {
    if count == 1 { "1 release".into() } else { format!("{count} releases") }
}
