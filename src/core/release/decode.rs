//! Decodes the payload of a record: the value that helm stores in the record's Secret.
//!
//! The decoder reads base64, gzip and JSON as streams. Most of a record is the chart with its templates. Only
//! `decode_source` needs the templates; the other functions skip them and never hold them in memory.

use std::io::{self, BufReader, Read};

use base64::engine::general_purpose::STANDARD;
use base64::read::DecoderReader;
use flate2::read::MultiGzDecoder;
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::fields::Budget;
use super::record::time;
use super::{Chart, Hook, Objects, Record, Status, manifest};
use osdpl_values::Values;

/// The maximum size of an unpacked payload in bytes.
///
/// The largest payloads of upstream's charts have 1.5 MB (neutron). Without the limit, a payload could unpack to 1 GiB:
/// gzip compresses 1 GiB of blanks to less than 1 MiB, the maximum size of a Secret.
pub(super) const UNPACKED_MAX: u64 = 16 << 20;

/// The maximum number of JSON lists, maps and their items in a payload.
///
/// The limit bounds the memory that decoding takes: an item may have only two bytes of JSON, but takes tens of bytes in
/// memory. The payloads of upstream's charts have some ten thousand items.
const ITEMS_MAX: usize = 250_000;

/// The first bytes of gzip data (with the compression method deflate).
///
/// If a payload does not begin with these bytes, an old version of helm stored it uncompressed.
const GZIP: [u8; 3] = [0x1f, 0x8b, 0x08];

/// The value of the field `apply_method` in a record's payload if helm used server-side apply.
const SERVER_SIDE: &str = "ssa";

/// Why osdpl cannot read the payload of a record. The caller adds the name of the Secret to the error.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The payload is not valid base64 or gzip, or its end is missing.
    #[error(
        "the content is damaged: {0}; osdpl does not change the release until someone repairs the record; restore the \
         Secret from a backup, or delete the Secret if the previous revision is intact"
    )]
    Damaged(io::Error),
    /// The payload unpacks to more bytes or items than any release needs.
    #[error(
        "the content unpacks to more than {} MiB or {ITEMS_MAX} items, more than any release needs; osdpl does not \
         change the release until someone repairs the record; find out what wrote the record, and delete the Secret if \
         the previous revision is intact",
        UNPACKED_MAX >> 20
    )]
    TooLarge,
    /// The payload can be unpacked, but its content is not a release.
    #[error(
        "the content is not a helm release: {0}; osdpl does not change the release until someone repairs the record; \
         restore the Secret from a backup, or delete the Secret if the previous revision is intact"
    )]
    NoRelease(String),
}

/// Decodes the payload of a record, but leaves out the values, the chart's files and the manifest.
///
/// `payload` is the value of `data.release` of the record's Secret, without the base64 encoding that Kubernetes adds.
///
/// # Errors
/// Returns an error if the payload is not a release record.
pub fn decode(payload: &[u8]) -> Result<Record, DecodeError> {
    let wire: Wire = json(payload)?;
    Ok(Record {
        name: wire.name,
        namespace: wire.namespace,
        version: wire.version,
        status: wire.info.status.parse().map_err(|error| DecodeError::NoRelease(format!("info.status: {error}")))?,
        description: wire.info.description,
        first_deployed: wire.info.first_deployed,
        last_deployed: wire.info.last_deployed,
        hooks: wire.hooks.unwrap_or_default(),
        chart: wire.chart.unwrap_or_default().metadata.unwrap_or_default(),
        server_side: wire.apply_method.as_deref() == Some(SERVER_SIDE),
    })
}

/// Decodes, from a record's payload, only the values that helm was given for the revision, without the chart's
/// defaults. The values contain secrets.
///
/// # Errors
/// Returns an error if the payload is not a release record.
pub fn decode_values(payload: &[u8]) -> Result<Values, DecodeError> {
    let wire: ValuesWire = json(payload)?;
    Ok(wire.config.unwrap_or_default())
}

/// Decodes, from a record's payload, only the status of the revision and the progress of its hooks. The operator polls
/// both while helm runs.
///
/// # Errors
/// Returns an error if the payload is not a release record.
pub fn decode_hooks(payload: &[u8]) -> Result<(Status, Vec<Hook>), DecodeError> {
    let wire: HooksWire = json(payload)?;
    let status = wire.info.status.parse().map_err(|error| DecodeError::NoRelease(format!("info.status: {error}")))?;
    Ok((status, wire.hooks.unwrap_or_default()))
}

/// Decodes the objects of a revision's manifest and of its hooks: their identities and the paths of their fields,
/// without the fields' values.
///
/// # Errors
/// Returns an error if the payload is not a release record, or if osdpl can't parse a manifest in it.
pub fn decode_objects(payload: &[u8]) -> Result<Objects, DecodeError> {
    let wire: ManifestWire = json(payload)?;
    let mut budget = Budget::new();
    let mut left = manifest::CONTENT_MAX;
    let mut objects = |text: &str| manifest::objects(text, &mut budget, &mut left).map_err(DecodeError::NoRelease);
    let manifest = objects(&wire.manifest)?;
    let hooks = wire.hooks.unwrap_or_default();
    let hooks = hooks.iter().map(|hook| objects(&hook.manifest)).collect::<Result<Vec<_>, _>>()?.concat();
    Ok(Objects { manifest, hooks, server_side: wire.apply_method.as_deref() == Some(SERVER_SIDE) })
}

/// Decodes the objects of a revision with the values of all fields: first the objects of its manifest, then the objects
/// of its hooks.
///
/// The values of the fields contain secrets.
///
/// # Errors
/// Returns an error if the payload is not a release record, or if osdpl can't parse a manifest in it.
pub fn decode_contents(payload: &[u8]) -> Result<Vec<Map<String, Value>>, DecodeError> {
    let wire: ManifestWire = json(payload)?;
    let hooks = wire.hooks.unwrap_or_default();
    let texts = [wire.manifest.as_str()].into_iter().chain(hooks.iter().map(|hook| hook.manifest.as_str()));
    let mut left = manifest::CONTENT_MAX;
    let read: Result<Vec<_>, String> = texts.map(|text| manifest::contents(text, &mut left)).collect();
    Ok(read.map_err(DecodeError::NoRelease)?.concat())
}

/// Unpacks a payload as a stream and decodes its JSON.
pub(super) fn json<T: DeserializeOwned>(payload: &[u8]) -> Result<T, DecodeError> {
    let mut unpacked = Items { json: unpack(payload)?, left: ITEMS_MAX, in_string: false, is_escaped: false };
    let read = serde_json::from_reader(BufReader::with_capacity(32 * 1024, &mut unpacked));
    read.map_err(|error| match error.classify() {
        _ if unpacked.left == 0 || unpacked.json.limit() == 0 => DecodeError::TooLarge,
        serde_json::error::Category::Io | serde_json::error::Category::Eof => DecodeError::Damaged(error.into()),
        // serde's message quotes the invalid value, which may be a secret. So osdpl's message contains only the line
        // and column.
        serde_json::error::Category::Syntax => DecodeError::NoRelease(describe("not JSON", &error)),
        serde_json::error::Category::Data => {
            DecodeError::NoRelease(describe("a field has the wrong type or is missing", &error))
        }
    })
}

fn describe(what: &str, error: &serde_json::Error) -> String {
    format!("{what} at line {}, column {}", error.line(), error.column())
}

/// Decodes the base64 text of a payload and, if the content is compressed, decompresses it.
pub(super) fn unpack(payload: &[u8]) -> Result<io::Take<Box<dyn Read + '_>>, DecodeError> {
    let mut plain = DecoderReader::new(payload, &STANDARD);
    let mut start = [0; GZIP.len()];
    let length = fill(&mut plain, &mut start).map_err(DecodeError::Damaged)?;
    let content = io::Cursor::new(start).take(length as u64).chain(plain);
    let reader: Box<dyn Read> =
        if start == GZIP { Box::new(MultiGzDecoder::new(BufReader::new(content))) } else { Box::new(content) };
    Ok(reader.take(UNPACKED_MAX))
}

/// Reads JSON text, and fails after [`ITEMS_MAX`] items.
struct Items<R> {
    json: R,
    left: usize,
    in_string: bool,
    is_escaped: bool,
}

impl<R: Read> Read for Items<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.json.read(buffer)?;
        for byte in &buffer[..length] {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = self.in_string,
                b'"' => self.in_string = !self.in_string,
                b',' | b'[' | b'{' if !self.in_string => self.left = self.left.saturating_sub(1),
                _ => {}
            }
        }
        if self.left == 0 { Err(io::Error::other("too many items")) } else { Ok(length) }
    }
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
    info: Info,
    hooks: Option<Vec<Hook>>,
    chart: Option<ChartWire>,
    apply_method: Option<String>,
}

#[derive(Deserialize)]
struct ValuesWire {
    config: Option<Values>,
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
