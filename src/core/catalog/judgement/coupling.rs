//! `values/couplings.yaml`: what several charts must be told alike.

use serde::Deserialize;
use serde_json::Value;

use super::super::{Error, Files};
use super::Reader;
use osdpl_values::Path;
use osdpl_values::expr::Expression;

/// Where the table is.
const FILE: &str = "values/couplings.yaml";

/// Something that several charts must be told alike.
#[derive(Debug)]
pub struct Coupling {
    /// What it is, for people: `the Keystone region`.
    pub what: String,
    /// Why it must be the same.
    pub why: String,
    /// What to do beside making them equal; nothing where empty.
    pub remedy: String,
    /// Upstream's own, where nobody sets it; unset places are left out where it is unknown.
    pub default: Option<Value>,
    /// What all must be, where that is known.
    pub expected: Option<Expression>,
    /// The release that serves everybody who has no server of his own: `rabbitmq`, where release `rabbitmq-nova` is nova's. Each server and those
    /// that it serves must be told alike, and nothing between two.
    pub server: Option<String>,
    /// Where it is said.
    pub places: Vec<Place>,
}

/// Where something is said.
#[derive(Debug)]
pub struct Place {
    /// The release; every one whose chart has the key where unset.
    pub release: Option<String>,
    /// The path; a key `*` is any one.
    pub path: Path,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    couplings: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    what: String,
    why: String,
    #[serde(default)]
    remedy: String,
    #[serde(default)]
    default: Option<Value>,
    #[serde(default)]
    expected: Option<String>,
    #[serde(default)]
    server: Option<String>,
    places: Vec<PlaceEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlaceEntry {
    #[serde(default)]
    release: Option<String>,
    path: String,
}

pub(super) fn read(files: &Files, reader: &mut Reader<'_>) -> Vec<Coupling> {
    let Some(text) = files.get(FILE) else { return Vec::new() };
    let file: File = text.read(FILE).unwrap_or_else(|error| {
        reader.errors.push(error.into());
        File::default()
    });
    file.couplings.into_iter().enumerate().map(|(index, entry)| coupling(index, entry, reader)).collect()
}

fn coupling(index: usize, entry: Entry, reader: &mut Reader<'_>) -> Coupling {
    let field = format!("couplings[{index}]");
    let expected = entry.expected.and_then(|text| {
        let compiled = Expression::compile(&text);
        compiled
            .map_err(|error| {
                let field = format!("{field}.expected");
                reader.errors.push(Error::Expression { file: FILE.into(), line: 0, field, error });
            })
            .ok()
    });
    let places = entry.places.into_iter().enumerate();
    let places = places.filter_map(|(at, place)| {
        let field = format!("{field}.places[{at}]");
        let path = match &place.release {
            Some(name) => reader.path(FILE, &field, Some(name), &place.path)?,
            None => Path::parse(&place.path)
                .map_err(|error| reader.errors.push(Error::Path { file: FILE.into(), field, error }))
                .ok()?,
        };
        Some(Place { release: place.release, path })
    });
    let places = places.collect();
    let server = entry.server.filter(|name| reader.release(FILE, &field, name).is_some());
    let Entry { what, why, remedy, default, .. } = entry;
    Coupling { what, why, remedy, default, expected, server, places }
}
