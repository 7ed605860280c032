//! cephx keys.

use std::fmt;

use base64::Engine as _;

use super::Complaint;

/// A cephx key of the right shape; it shows itself only to who asks by [`CephxKey::reveal`].
#[derive(Clone, PartialEq, Eq)]
pub struct CephxKey(String);

impl CephxKey {
    /// Reads a key. Ceph's `CryptoKey::encode`: type (2 bytes), seconds (4), nanoseconds (4), length (2, all little-endian), secret; the
    /// secret has 16 bytes for AES and 32 for AES256K.
    ///
    /// # Errors
    /// What is wrong with its shape.
    pub fn parse(text: &str) -> Result<Self, Complaint> {
        let text = text.trim();
        let bytes = base64::engine::general_purpose::STANDARD.decode(text).map_err(|_| Complaint::NotBase64)?;
        let Some((header, secret)) = bytes.split_at_checked(12) else { return Err(Complaint::NotCephx) };
        let kind = u16::from_le_bytes([header[0], header[1]]);
        let length = usize::from(u16::from_le_bytes([header[10], header[11]]));
        if kind == 0 || length != secret.len() || ![16, 32].contains(&length) {
            return Err(Complaint::NotCephx);
        }
        Ok(Self(text.to_owned()))
    }

    /// A key of the right shape that opens nothing: type 1, no time, 16 zeros.
    pub(super) fn of_zeros() -> Self {
        let mut bytes = [0; 28];
        (bytes[0], bytes[10]) = (1, 16);
        Self(base64::engine::general_purpose::STANDARD.encode(bytes))
    }

    /// The key itself, for a Secret's data and for nothing else.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for CephxKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("CephxKey([redacted])")
    }
}
