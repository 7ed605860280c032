//! Differences for people and for programs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use crate::plan::change::Change;
use crate::said::Said;
use osdpl_core::difference::Difference;

/// What would be done, were the resource carried out as it is.
#[derive(Default, Serialize)]
pub struct Shown {
    pub namespace: String,
    pub name: String,
    /// The releases that are not as they are wanted, by the catalogue's names.
    pub releases: BTreeMap<String, Line>,
    /// How many are.
    pub same: usize,
    /// How many were let go: nobody compares them.
    #[serde(rename = "letGo", skip_serializing_if = "is_none")]
    pub let_go: usize,
    /// What is wrong with the resource, or should be known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Said>,
    /// What could not be found out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
    /// Whether releases count as they are wanted for the benefit of the doubt.
    #[serde(skip)]
    pub uncertain: bool,
    /// What else should be known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_none(count: &usize) -> bool {
    *count == 0
}

/// One release.
#[derive(Serialize)]
pub struct Line {
    /// `namespace/name`, as helm knows it.
    pub release: String,
    #[serde(flatten)]
    pub what: What,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<Change>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<Difference>,
    /// Why its objects are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unrendered: Option<String>,
}

/// What would become of it.
#[derive(PartialEq, Eq, Serialize)]
#[serde(tag = "what", rename_all = "camelCase")]
pub enum What {
    /// It is not there.
    Installed,
    /// Nothing wants it any more.
    Uninstalled,
    /// It becomes nobody's, and stays as it is.
    LetGo,
    /// It is given something else: values, and `chart` where that is another.
    Changed {
        #[serde(skip_serializing_if = "Option::is_none")]
        chart: Option<String>,
    },
    /// What is asked of it can't be done, such as moving it: it stays as it is, where it is.
    Stays { why: String },
    /// What it is to be given is not at hand.
    Refused { why: String },
    /// What runs can't be read.
    Unreadable { why: String },
}

impl Shown {
    /// Whether everything could be compared.
    pub fn is_whole(&self) -> bool {
        let apart = |release: &Line| {
            release.unrendered.is_some() || matches!(release.what, What::Refused { .. } | What::Unreadable { .. })
        };
        !self.uncertain && !self.releases.values().any(apart)
    }

    /// Whether anything is not as it is wanted.
    pub fn differs(&self) -> bool {
        !self.releases.is_empty()
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for finding in &self.findings {
            let _ = writeln!(text, "{finding}");
        }
        for (name, release) in &self.releases {
            let _ = writeln!(text, "{name} ({}) {}", release.release, release.what);
            for change in &release.values {
                let _ = writeln!(text, "  {}", change.told());
            }
            if let Some(why) = &release.unrendered {
                let _ = writeln!(text, "  its objects can't be compared: {}", why.replace('\n', "\n  "));
            }
            for object in &release.objects {
                let _ = writeln!(text, "  {object}");
                for field in &object.fields {
                    let _ = writeln!(text, "    {}", field.to_string().replace('\n', "\n    "));
                }
            }
        }
        let _ = writeln!(text, "{}", self.summary());
        for note in &self.notes {
            let _ = writeln!(text, "note: {note}");
        }
        for unknown in &self.unknown {
            let _ = writeln!(text, "unknown: {unknown}");
        }
        text
    }

    fn summary(&self) -> String {
        let of = |kind: fn(&What) -> bool| self.releases.values().filter(|release| kind(&release.what)).count();
        let counts = [
            (of(|what| matches!(what, What::Changed { .. })), "would be changed"),
            (of(|what| *what == What::Installed), "installed"),
            (of(|what| *what == What::Uninstalled), "uninstalled"),
            (self.let_go + of(|what| *what == What::LetGo), "let go"),
            (of(|what| matches!(what, What::Stays { .. })), "left as it is against the spec"),
            (of(|what| matches!(what, What::Refused { .. } | What::Unreadable { .. })), "can't be compared"),
        ];
        let told = counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}, "));
        let ended = self.releases.values().flat_map(|release| &release.objects);
        let ended = ended.filter(|object| object.effect.ends_pods()).count();
        let pods = match ended {
            0 => String::new(),
            1 => "; the pods of 1 object restart".to_owned(),
            count => format!("; the pods of {count} objects restart"),
        };
        format!("{}{} as wanted{pods}.", told.collect::<String>(), self.same)
    }
}

impl std::fmt::Display for What {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Installed => formatter.write_str("would be installed"),
            Self::Uninstalled => formatter.write_str("would be uninstalled"),
            Self::LetGo => formatter.write_str("would be let go, and runs on as it is"),
            Self::Changed { chart: None } => formatter.write_str("would be changed"),
            Self::Changed { chart: Some(chart) } => write!(formatter, "would be changed: {chart}"),
            Self::Stays { why } => write!(formatter, "stays as it is: {why}"),
            Self::Refused { why } => write!(formatter, "can't be compared: {why}"),
            Self::Unreadable { why } => write!(formatter, "can't be read: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn release(what: What, values: Vec<Change>) -> Line {
        Line { release: "openstack/x".into(), what, values, objects: Vec::new(), unrendered: None }
    }

    fn shown(releases: Vec<(&str, Line)>) -> Shown {
        let releases = releases.into_iter().map(|(name, release)| (name.to_owned(), release)).collect();
        Shown { releases, same: 2, ..Shown::default() }
    }

    #[test]
    fn every_kind_of_difference_is_told_and_secrets_only_change() {
        let change = |before: &str, after: &str| Change {
            path: "conf.x".into(),
            before: Some(json!(before)),
            after: Some(json!(after)),
            source: None,
        };
        let chart = || Some("the chart's version from 1 to 2".to_owned());
        let all = shown(vec![
            ("a", release(What::Installed, vec![])),
            ("b", release(What::Uninstalled, vec![])),
            ("c", release(What::Changed { chart: None }, vec![change("1", "2"), change("<redacted>", "<redacted>")])),
            ("d", release(What::Changed { chart: chart() }, vec![])),
        ]);
        assert_eq!(
            all.text(),
            "a (openstack/x) would be installed\nb (openstack/x) would be uninstalled\nc (openstack/x) would be changed\n  \
             conf.x: \"1\" → \"2\"\n  conf.x: changed, not shown\nd (openstack/x) would be changed: the chart's version from 1 to 2\n\
             2 would be changed, 1 installed, 1 uninstalled, 2 as wanted.\n"
        );
        assert!(all.is_whole() && all.differs());
        let told = serde_json::to_value(&all).unwrap();
        assert_eq!(told["releases"]["a"], json!({"release": "openstack/x", "what": "installed"}));
        let lacking = shown(vec![("e", release(What::Refused { why: "no chart".into() }, vec![]))]);
        assert!(!lacking.is_whole() && lacking.text().contains("e (openstack/x) can't be compared: no chart\n"));
        let moved = shown(vec![("f", release(What::Stays { why: "it can't become y/f".into() }, vec![]))]);
        assert_eq!(
            moved.text(),
            "f (openstack/x) stays as it is: it can't become y/f\n1 left as it is against the spec, 2 as wanted.\n"
        );
        assert!(moved.is_whole() && moved.differs());
        assert_eq!(shown(vec![]).text(), "2 as wanted.\n");
    }

    #[test]
    fn what_was_not_compared_is_not_as_wanted() {
        let gone = Shown { let_go: 1, ..shown(vec![("a", release(What::LetGo, vec![]))]) };
        assert_eq!(gone.text(), "a (openstack/x) would be let go, and runs on as it is\n2 let go, 2 as wanted.\n");
        let guessed = Shown { uncertain: true, ..shown(vec![]) };
        assert!(!guessed.is_whole(), "what counts as wanted only because its chart is not known");
        let line = Line { unrendered: Some("no chart x".into()), ..release(What::Changed { chart: None }, vec![]) };
        let half = shown(vec![("a", line)]);
        assert!(!half.is_whole() && half.text().contains("\n  its objects can't be compared: no chart x\n"));
    }
}
