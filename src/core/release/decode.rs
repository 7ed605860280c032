//! From the bytes in a record's Secret to what is worth knowing.
//!
//! The layers are streamed into one another: base64, gzip, JSON. The chart with all its templates, which is most of a
//! record, is skipped as it comes by and never held.

use std::io::{self, BufReader, Read};

use base64::engine::general_purpose::STANDARD;
use base64::read::DecoderReader;
use flate2::read::MultiGzDecoder;
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::record::time;
use super::{Chart, Hook, Objects, Record, Status, manifest};

/// The most that a payload may unpack to. A real one is 1.5 MB (neutron); etcd's limit keeps the packed form under 1 MiB.
pub(super) const UNPACKED_MAX: u64 = 64 * 1024 * 1024;

/// How gzip begins, with deflate as method; anything else was stored before helm compressed.
const GZIP: [u8; 3] = [0x1f, 0x8b, 0x08];

/// `apply_method` of what the API server applied.
const SERVER_SIDE: &str = "ssa";

/// A payload that cannot be read. Where it lies is the caller's to say.
#[derive(Debug, thiserror::Error)]
pub enum Undecodable {
    /// Not base64, not gzip, or cut off.
    #[error(
        "the release record's payload is damaged: {0}; nothing is done to the release: restore the secret from a backup, \
         or delete it if an older revision is good"
    )]
    Damaged(io::Error),
    /// It unpacks to more than any release needs.
    #[error(
        "the release record unpacks to more than {} MiB, which no release does; it is not read further: look at who wrote \
         it, and delete the secret if an older revision is good", UNPACKED_MAX / 1024 / 1024
    )]
    TooLarge,
    /// It is readable JSON or YAML, but no release.
    #[error(
        "the release record does not hold a release: {0}; nothing is done to the release: restore the secret from a \
         backup, or delete it if an older revision is good"
    )]
    NoRelease(String),
}

/// Decodes `data.release` of a record's Secret (Kubernetes' own base64 undone already), all but chart and manifest.
///
/// # Errors
/// What does not make a release of it.
pub fn decode(payload: &[u8]) -> Result<Record, Undecodable> {
    let wire: Wire = json(payload)?;
    Ok(Record {
        name: wire.name,
        namespace: wire.namespace,
        version: wire.version,
        config: wire.config,
        status: wire.info.status.parse().map_err(|error| Undecodable::NoRelease(format!("info.status: {error}")))?,
        description: wire.info.description,
        first_deployed: wire.info.first_deployed,
        last_deployed: wire.info.last_deployed,
        hooks: wire.hooks.unwrap_or_default(),
        chart: wire.chart.unwrap_or_default().metadata.unwrap_or_default(),
        server_side: wire.apply_method.as_deref() == Some(SERVER_SIDE),
    })
}

/// Decodes only the status and the hooks: what is asked again and again while an operation runs.
///
/// # Errors
/// What does not make a release of it.
pub fn decode_hooks(payload: &[u8]) -> Result<(Status, Vec<Hook>), Undecodable> {
    let wire: HooksWire = json(payload)?;
    let status = wire.info.status.parse().map_err(|error| Undecodable::NoRelease(format!("info.status: {error}")))?;
    Ok((status, wire.hooks.unwrap_or_default()))
}

/// Decodes the objects of a revision: its manifest's, and its hooks'.
///
/// # Errors
/// What does not make a release of it.
pub fn decode_objects(payload: &[u8]) -> Result<Objects, Undecodable> {
    let wire: ManifestWire = json(payload)?;
    let hooks = wire.hooks.unwrap_or_default();
    Ok(Objects {
        manifest: manifest::objects(&wire.manifest).map_err(Undecodable::NoRelease)?,
        hooks: hooks
            .iter()
            .map(|hook| manifest::objects(&hook.manifest))
            .collect::<Result<Vec<_>, _>>()
            .map_err(Undecodable::NoRelease)?
            .concat(),
        server_side: wire.apply_method.as_deref() == Some(SERVER_SIDE),
    })
}

/// Decodes the objects of a revision whole, its hooks' behind the manifest's. Secrets inside.
///
/// # Errors
/// What does not make a release of it.
pub fn decode_contents(payload: &[u8]) -> Result<Vec<Map<String, Value>>, Undecodable> {
    let wire: ManifestWire = json(payload)?;
    let hooks = wire.hooks.unwrap_or_default();
    let texts = [wire.manifest.as_str()].into_iter().chain(hooks.iter().map(|hook| hook.manifest.as_str()));
    let read: Result<Vec<_>, String> = texts.map(manifest::contents).collect();
    Ok(read.map_err(Undecodable::NoRelease)?.concat())
}

/// The JSON inside a payload, unpacked as it is read.
pub(super) fn json<T: DeserializeOwned>(payload: &[u8]) -> Result<T, Undecodable> {
    let mut unpacked = unpack(payload)?;
    let read = serde_json::from_reader(BufReader::with_capacity(32 * 1024, &mut unpacked));
    read.map_err(|error| match error.classify() {
        _ if unpacked.limit() == 0 => Undecodable::TooLarge,
        serde_json::error::Category::Io | serde_json::error::Category::Eof => Undecodable::Damaged(error.into()),
        // serde quotes the offending value, which may be a secret: line and column must do.
        serde_json::error::Category::Syntax => Undecodable::NoRelease(place("not JSON", &error)),
        serde_json::error::Category::Data => {
            Undecodable::NoRelease(place("a field has the wrong type or is missing", &error))
        }
    })
}

fn place(what: &str, error: &serde_json::Error) -> String {
    format!("{what} at line {}, column {}", error.line(), error.column())
}

/// The layers below the JSON.
pub(super) fn unpack(payload: &[u8]) -> Result<io::Take<Box<dyn Read + '_>>, Undecodable> {
    let mut plain = DecoderReader::new(payload, &STANDARD);
    let mut start = [0; GZIP.len()];
    let length = fill(&mut plain, &mut start).map_err(Undecodable::Damaged)?;
    let whole = io::Cursor::new(start).take(length as u64).chain(plain);
    let reader: Box<dyn Read> =
        if start == GZIP { Box::new(MultiGzDecoder::new(BufReader::new(whole))) } else { Box::new(whole) };
    Ok(reader.take(UNPACKED_MAX))
}

fn fill(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < buffer.len() {
        match reader.read(&mut buffer[length..])? {
            0 => break,
            more => length += more,
        }
    }
    Ok(length)
}

#[derive(Deserialize)]
struct Wire {
    name: String,
    namespace: String,
    version: u32,
    #[serde(default)]
    config: Value,
    info: Info,
    hooks: Option<Vec<Hook>>,
    chart: Option<ChartWire>,
    apply_method: Option<String>,
}

#[derive(Deserialize)]
struct HooksWire {
    info: Info,
    hooks: Option<Vec<Hook>>,
}

#[derive(Deserialize)]
struct ManifestWire {
    #[serde(default)]
    manifest: String,
    hooks: Option<Vec<HookManifest>>,
    apply_method: Option<String>,
}

#[derive(Deserialize)]
struct HookManifest {
    #[serde(default)]
    manifest: String,
}

#[derive(Default, Deserialize)]
struct ChartWire {
    metadata: Option<Chart>,
}

#[derive(Deserialize)]
struct Info {
    status: String,
    #[serde(default)]
    description: String,
    #[serde(default, deserialize_with = "time")]
    first_deployed: Option<Timestamp>,
    #[serde(default, deserialize_with = "time")]
    last_deployed: Option<Timestamp>,
}

#[cfg(test)]
mod tests;
