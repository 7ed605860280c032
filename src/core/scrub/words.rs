//! Recognizes names that probably belong to secrets.

/// Words that mark a secret. A string is probably secret if a key on its path contains one of these words. A number is
/// probably secret if its own key ends with one of these words.
const WORDS: [&str; 21] = [
    "password",
    "passphrase",
    "passwd",
    "secret",
    "token",
    "private",
    "credential",
    "keyring",
    "transport_url",
    "api_key",
    "encryption_key",
    "heartbeat_key",
    "cookie",
    "apikey",
    "pwd",
    "kek",
    "access_key",
    "url_key",
    "tmpurlkey",
    "hash_path",
    "sst_auth",
];

/// A further word that marks a secret: a key is also secret if it is this word, or ends with this word after `_`, `-`
/// or `.`. Under such a key, even a number is a secret.
///
/// A separator must precede this word, unlike the words in `WORDS`, because some keys end with the letters `pin` by
/// chance (`cpu_spin`).
const PIN: &str = "pin";

/// Whether a name contains a word that marks a secret.
pub(super) fn sounds_secret(name: &str) -> bool {
    WORDS.iter().any(|word| name.to_lowercase().contains(word))
}

/// Whether a key ends with a word that marks a secret.
///
/// A number is secret only if its key ends with such a word. So the numbers under `token.expiration` and
/// `password_expires_days` are settings, not secrets.
pub(crate) fn is_secret_key(key: &str) -> bool {
    let key = key.to_lowercase();
    key.rsplit(['_', '-', '.']).next() == Some(PIN) || WORDS.iter().any(|word| key.ends_with(word))
}
