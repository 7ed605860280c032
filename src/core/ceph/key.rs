//! cephx keys.

use std::fmt;

use base64::Engine as _;

use super::ValueError;

/// A well-formed cephx key. Only [`CephxKey::reveal`] returns its text.
#[derive(Clone, PartialEq, Eq)]
pub struct CephxKey(String);

impl CephxKey {
    /// Parses a key.
    ///
    /// The format of Ceph's `CryptoKey::encode` is: type (2 bytes), seconds (4), nanoseconds (4), length (2), all
    /// little-endian, then the secret of 16 bytes for AES or 32 for AES256K.
    ///
    /// # Errors
    /// The error of the format.
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

    /// Returns a well-formed placeholder key: type 1, no time, 16 zeros.
    pub(super) fn placeholder() -> Self {
        let mut bytes = [0; 28];
        (bytes[0], bytes[10]) = (1, 16);
        Self(base64::engine::general_purpose::STANDARD.encode(bytes))
    }

    /// Returns the key's text. Only use it for the data of a Secret.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for CephxKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("CephxKey([redacted])")
    }
}
