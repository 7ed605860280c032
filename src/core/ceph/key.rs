//! Checks the format of secret keys of cephx, Ceph's authentication protocol, and keeps the keys out of debug output.

use std::fmt;

use base64::Engine as _;

use super::ValueError;

/// A cephx key whose format osdpl has checked. Only [`CephxKey::reveal`] returns its text; debug output redacts the
/// text.
#[derive(Clone, PartialEq, Eq)]
pub struct CephxKey(String);

impl CephxKey {
    /// Parses a cephx key as `ceph auth print-key` prints it.
    ///
    /// The text is base64 of the bytes that Ceph's `CryptoKey::encode` writes: type (2 bytes), seconds (4), nanoseconds
    /// (4) and length (2), all little-endian, then the secret. The secret has 16 bytes for AES or 32 for AES256K.
    ///
    /// # Errors
    /// Returns an error if the text is not base64, or if the bytes do not have this format.
    pub fn parse(text: &str) -> Result<Self, ValueError> {
        let text = text.trim();
        let bytes = base64::engine::general_purpose::STANDARD.decode(text).map_err(|_| ValueError::NotBase64)?;
        let Some((header, secret)) = bytes.split_at_checked(12) else { return Err(ValueError::NotCephx) };
        let kind = u16::from_le_bytes([header[0], header[1]]);
        let length = usize::from(u16::from_le_bytes([header[10], header[11]]));
        if kind == 0 || length != secret.len() || ![16, 32].contains(&length) {
            return Err(ValueError::NotCephx);
        }
        Ok(Self(text.to_owned()))
    }

    /// Returns a cephx key with a valid format, but with 16 zeros as the secret (type 1, time 0).
    pub(super) fn placeholder() -> Self {
        let mut bytes = [0; 28];
        (bytes[0], bytes[10]) = (1, 16);
        Self(base64::engine::general_purpose::STANDARD.encode(bytes))
    }

    /// Returns the key's text. Callers may use the text only in the data of a Secret, to compute a digest, or to redact
    /// the key in other texts.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for CephxKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("CephxKey([redacted])")
    }
}
