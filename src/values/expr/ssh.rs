//! Derives Ed25519 SSH keys in the file format of OpenSSH from secret strings.
//!
//! The same string always gives the same key pair, so osdpl need not store the key pair.
//!
//! Sources: OpenSSH's `PROTOCOL.key` (file format) and RFC 8709 (`ssh-ed25519`).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use sha2::{Digest as _, Sha256};

const KIND: &[u8] = b"ssh-ed25519";
/// The length of a line of base64 in the files that `ssh-keygen` writes.
const LINE: usize = 70;
/// The block size, in bytes, that OpenSSH uses for an unencrypted key (the cipher `none`). OpenSSH pads the private
/// section of a key file to a multiple of this size.
const BLOCK: usize = 8;

/// Derives a key pair from `secret`: returns the text of the private key's file, and the public key as a line for
/// `authorized_keys`.
///
/// The seed of the key pair is the SHA-256 digest of `secret`, so that the private key is as hard to guess as `secret`.
/// The result is never `None`, because the library accepts every seed of 32 bytes.
pub(super) fn key_pair(secret: &str) -> Option<(String, String)> {
    let seed: [u8; 32] = Sha256::digest(secret).into();
    let pair = Ed25519KeyPair::from_seed_unchecked(&seed).ok()?;
    let public = pair.public_key().as_ref();
    let blob = [field(KIND), field(public)].concat();
    // The file format contains a check number twice. If a key is encrypted, two equal numbers after its decryption show
    // that the passphrase was right. This key is not encrypted, so any number will do.
    let check = public.get(..4)?;
    let halves = [seed.as_slice(), public].concat();
    let mut private = [check, check, &field(KIND), &field(public), &field(&halves), &field(b"")].concat();
    private.extend((1u8..).take((BLOCK - private.len() % BLOCK) % BLOCK));
    let file = [
        b"openssh-key-v1\0",
        &*field(b"none"),
        &field(b"none"),
        &field(b""),
        &[0, 0, 0, 1],
        &field(&blob),
        &field(&private),
    ]
    .concat();
    let text = STANDARD.encode(file);
    let lines: Vec<&str> =
        (0..text.len()).step_by(LINE).filter_map(|from| text.get(from..text.len().min(from + LINE))).collect();
    Some((
        format!("-----BEGIN OPENSSH PRIVATE KEY-----\n{}\n-----END OPENSSH PRIVATE KEY-----\n", lines.join("\n")),
        format!("ssh-ed25519 {}\n", STANDARD.encode(&blob)),
    ))
}

/// Encodes a field of OpenSSH's key format: the length in four bytes, big-endian, then the content.
fn field(content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).unwrap_or(u32::MAX);
    [&length.to_be_bytes(), content].concat()
}
