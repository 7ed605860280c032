//! Unlocks a record whose helm run is dead.
//!
//! helm refuses every operation while the newest record is pending, and it reads the status from the payload: changing
//! only the label unlocks nothing. So the payload is rewritten. Everything else in it is preserved byte by byte:
//! unknown fields, the notation of numbers, the chart.

use std::collections::BTreeMap;
use std::io::{Read, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use serde_json::value::{RawValue, to_raw_value};

use super::decode::{UNPACKED_MAX, unpack};
use super::{DecodeError, SECRET_KEY, Status};

/// A JSON object whose values keep their notation.
type Fields<'a> = BTreeMap<String, &'a RawValue>;

/// Returns the payload with `info.status` `failed` and a new description; the rest is unchanged.
///
/// The caller must store it with PUT and the `resourceVersion` that it read, so that the write fails if a helm
/// process is still alive and writes the record, too.
///
/// # Errors
/// Fails if the payload is not a record.
fn mark_payload_failed(payload: &[u8], description: &str) -> Result<Vec<u8>, DecodeError> {
    let text = unpacked(payload)?;
    let mut record = fields(&text, "the record")?;
    let info = record.get("info").ok_or_else(|| DecodeError::NoRelease("it has no field \"info\"".to_owned()))?;
    let mut info = fields(info.get(), "its field \"info\"")?;
    let (status, description) = (raw(Status::Failed.as_str())?, raw(description)?);
    info.insert("status".to_owned(), &status);
    info.insert("description".to_owned(), &description);
    let info = raw(&info)?;
    record.insert("info".to_owned(), &info);
    pack(&record)
}

/// Rewrites a record's Secret with [`mark_payload_failed`] and its `status` label. Name and `resourceVersion` are unchanged.
///
/// # Errors
/// Fails if the Secret has no record.
pub fn mark_secret_failed(mut secret: Secret, description: &str) -> Result<Secret, DecodeError> {
    let data = secret.data.get_or_insert_default();
    let payload = data
        .get(SECRET_KEY)
        .ok_or_else(|| DecodeError::NoRelease(format!("the secret has no data under the key {SECRET_KEY:?}")))?;
    let rewritten = mark_payload_failed(&payload.0, description)?;
    data.insert(SECRET_KEY.to_owned(), ByteString(rewritten));
    let labels = secret.metadata.labels.get_or_insert_default();
    labels.insert("status".to_owned(), Status::Failed.to_string());
    Ok(secret)
}

fn unpacked(payload: &[u8]) -> Result<String, DecodeError> {
    let mut reader = unpack(payload)?;
    let mut text = String::new();
    reader.read_to_string(&mut text).map_err(DecodeError::Damaged)?;
    if text.len() as u64 >= UNPACKED_MAX { Err(DecodeError::TooLarge) } else { Ok(text) }
}

fn fields<'a>(text: &'a str, what: &str) -> Result<Fields<'a>, DecodeError> {
    serde_json::from_str(text).map_err(|_| DecodeError::NoRelease(format!("{what} is not a JSON object")))
}

fn raw(value: &(impl serde::Serialize + ?Sized)) -> Result<Box<RawValue>, DecodeError> {
    to_raw_value(value).map_err(|error| DecodeError::NoRelease(format!("it cannot be written again: {error}")))
}

/// Packs a record like helm: JSON, gzip with best compression (the record must stay below etcd's limit), base64.
fn pack(record: &Fields<'_>) -> Result<Vec<u8>, DecodeError> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    let text = raw(record)?;
    packer.write_all(text.get().as_bytes()).map_err(DecodeError::Damaged)?;
    let packed = packer.finish().map_err(DecodeError::Damaged)?;
    Ok(STANDARD.encode(packed).into_bytes())
}

#[cfg(test)]
mod tests;
