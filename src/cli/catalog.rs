//! `osdpl catalog`: lists the services, presets, features and OpenStack releases of the catalogue, or describes one.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use clap::builder::{EnumValueParser, PossibleValue, TypedValueParser};
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, Args, Command, ValueEnum};
use serde_json::{Map, Value};

use super::additions::warn_about;
use super::common::{CatalogOption, Target};
use super::connect::ClusterOption;
use super::document::Document;
use super::output::{self, Format};
use crate::reference::{Kind, Reference, pages};
use osdpl_core::catalog::ExtendedCatalog;
use osdpl_core::files::built_in;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The kind of entries to list; default: all kinds.
    #[arg(value_parser = KindParser)]
    kind: Option<KindArgument>,
    /// The service, preset, feature or OpenStack release to describe.
    name: Option<String>,
    /// The output format.
    #[arg(long, short, value_enum, default_value_t = Format::Text)]
    output: Format,
    /// Include the services, presets and features that the resource in this file adds; `-` for standard input.
    #[arg(long, short, conflicts_with = "namespace")]
    file: Option<PathBuf>,
    /// Include the services, presets and features that the resource in this namespace of the cluster adds.
    #[arg(long, short)]
    namespace: Option<String>,
    #[command(flatten)]
    cluster: ClusterOption,
    /// Write the reference documentation into this folder, one page per entry, and remove the pages of entries that no
    /// longer exist.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["kind", "name"])]
    markdown: Option<PathBuf>,
    #[command(flatten)]
    catalog: CatalogOption,
}

#[derive(Clone, Copy, ValueEnum)]
enum KindArgument {
    #[value(alias = "service")]
    Services,
    #[value(alias = "preset")]
    Presets,
    #[value(alias = "feature")]
    Features,
    /// Releases of OpenStack.
    #[value(alias = "release")]
    Releases,
}

impl KindArgument {
    fn kind(self) -> Kind {
        match self {
            Self::Services => Kind::Services,
            Self::Presets => Kind::Presets,
            Self::Features => Kind::Features,
            Self::Releases => Kind::Releases,
        }
    }
}

/// Parses an argument that must be a kind of catalogue entries, such as `services`. If the user wrote the name of an
/// entry instead, the error suggests the command that describes this entry.
#[derive(Clone)]
struct KindParser;

impl TypedValueParser for KindParser {
    type Value = KindArgument;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<KindArgument, clap::Error> {
        EnumValueParser::<KindArgument>::new().parse_ref(command, arg, value).map_err(|mut error| {
            if let Some(hint) = value.to_str().and_then(command_hint) {
                error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint.into()]));
            }
            error
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let known: Vec<PossibleValue> =
            KindArgument::value_variants().iter().filter_map(ValueEnum::to_possible_value).collect();
        Some(Box::new(known.into_iter()))
    }
}

/// Returns the text of a hint: the command that describes the entry `name` of the built-in catalogue; `None` if the
/// built-in catalogue has no such entry.
fn command_hint(name: &str) -> Option<String> {
    let reference = Reference::read(&built_in()).ok()?;
    let kind = Kind::ALL.into_iter().find(|kind| reference.list(*kind).iter().any(|line| line.name == name))?;
    Some(format!("`catalog {} {name}` describes it", kind.name()))
}

impl Arguments {
    pub(crate) async fn run(&self) -> anyhow::Result<ExitCode> {
        let reference = Reference::read(&self.extended().await?.files)?;
        match (&self.markdown, self.kind, &self.name) {
            (Some(folder), _, _) => write_pages(folder, &reference)?,
            (None, Some(kind), Some(name)) => {
                let described = reference.describe(kind.kind(), name)?;
                match self.output {
                    Format::Text => output::print(described.page),
                    Format::Json => output::line(serde_json::to_string_pretty(&described.data)?),
                }
            }
            (None, kind, _) => {
                let kinds = kind.map_or(Kind::ALL.to_vec(), |kind| vec![kind.kind()]);
                match self.output {
                    Format::Text => output::print(list_text(&reference, &kinds)),
                    Format::Json => output::line(serde_json::to_string_pretty(&list_json(&reference, &kinds)?)?),
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Arguments {
    /// Loads the catalogue with the additions that an `OpenStackDeployment` names. With `--file`, this is the resource
    /// in the file. With `--namespace`, it is the resource in the cluster. With neither option, there are no additions.
    async fn extended(&self) -> anyhow::Result<ExtendedCatalog> {
        if let Some(file) = &self.file {
            return self.catalog.load_for(&Document::read(file)?);
        }
        if self.namespace.is_none() {
            return self.catalog.extended(&[]);
        }
        let target = Target { name: None, namespace: self.namespace.clone(), cluster: self.cluster.clone() };
        let client = target.cluster.client().await?;
        let (extended, errors) = self.catalog.load_live(&client, &target.find(&client).await?).await?;
        warn_about(&errors);
        Ok(extended)
    }
}

/// Returns the names and descriptions of the catalogue entries of these kinds, as text.
fn list_text(reference: &Reference, kinds: &[Kind]) -> String {
    let mut text = String::new();
    for kind in kinds {
        let lines = reference.list(*kind);
        let width = lines.iter().map(|line| line.name.len()).max().unwrap_or_default();
        // A list of one kind has no heading, so that scripts can parse it.
        if kinds.len() > 1 {
            let separator = if text.is_empty() { "" } else { "\n" };
            let _ = writeln!(text, "{separator}{}:", kind.name());
        }
        for line in lines {
            let description = line.description.split_whitespace().collect::<Vec<_>>().join(" ");
            let _ = writeln!(text, "{:<width$}  {description}", line.name);
        }
    }
    text
}

/// Returns the names and descriptions of the catalogue entries of these kinds, as JSON.
fn list_json(reference: &Reference, kinds: &[Kind]) -> serde_json::Result<Value> {
    let lists = kinds.iter().map(|kind| Ok((kind.name().to_owned(), serde_json::to_value(reference.list(*kind))?)));
    Ok(Value::Object(lists.collect::<serde_json::Result<Map<_, _>>>()?))
}

/// Writes one Markdown page for each entry, and removes the pages of entries that the catalogue no longer has.
#[allow(clippy::disallowed_methods, reason = "the command line writes into the folder that its user names")]
fn write_pages(folder: &Path, reference: &Reference) -> anyhow::Result<()> {
    let pages = pages(reference)?;
    for kind in Kind::ALL {
        let subfolder = folder.join(kind.name());
        if let Err(error) = std::fs::create_dir_all(&subfolder) {
            bail!("osdpl can't create the folder {}: {error}; name another folder", subfolder.display());
        }
        for entry in std::fs::read_dir(&subfolder)? {
            let path = entry?.path();
            let name = path.file_name().map(|name| format!("{}/{}", kind.name(), name.to_string_lossy()));
            if path.extension().is_some_and(|extension| extension == "md")
                && name.is_some_and(|name| !pages.contains_key(&name))
            {
                std::fs::remove_file(&path)?;
            }
        }
    }
    for (name, text) in &pages {
        let path = folder.join(name);
        if let Err(error) = std::fs::write(&path, text) {
            bail!("osdpl can't write {}: {error}; name another folder", path.display());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_the_command_for_an_entry() {
        let parse = |word: &str| {
            KindParser.parse_ref(&Command::new("catalog"), None, OsStr::new(word)).map_err(|error| error.to_string())
        };
        for (word, expected) in [
            ("nova", "`catalog services nova` describes it"),
            ("network", "`catalog features network` describes it"),
            ("servces", "services"),
        ] {
            let error = parse(word).err().unwrap();
            assert!(error.contains(expected), "{word}: {error}");
        }
        assert!(parse("preset").is_ok_and(|kind| kind.kind() == Kind::Presets));
    }
}
