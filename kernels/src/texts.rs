//! Checks of paths and addresses. Texts that pass need no check by itself.

use crate::bytes::{Declined, Items, Outcome, require};

const AZURE_CLOUDS: [&[u8]; 4] = [
    b".blob.core.windows.net",
    b".blob.core.chinacloudapi.cn",
    b".blob.core.usgovcloudapi.net",
    b".blob.storage.azure.net",
];

/// Declines a column with an item that is not UTF-8.
pub fn require_text(items: &Items) -> Outcome<()> {
    let bytes = items.run(0, items.len());
    if bytes.is_ascii() {
        return Ok(());
    }
    let text = std::str::from_utf8(bytes).map_err(|_| Declined)?;
    require(items.ends().all(|end| text.is_char_boundary(end)))
}

/// Returns which texts are of a plain form:
/// - `key`: a key without NUL, a leading '/', or parts that start with '.'
/// - `address`: such a key, or a URI with a key that starts well and not with a namespace
/// - `uri`: a URI of which no part is empty, starts with '.' or has a NUL
pub fn plain(items: &Items, form: &str, namespace: &[u8]) -> Outcome<Vec<bool>> {
    require_text(items)?;
    match form {
        "key" => Ok(items.iter().map(is_plain_key).collect()),
        "address" => Ok(items.iter().map(|text| is_plain_address(text, namespace)).collect()),
        "uri" => Ok(items.iter().map(is_plain_uri).collect()),
        _ => Err(Declined),
    }
}

fn begins_well(text: &[u8]) -> bool {
    text.first().is_some_and(|byte| !matches!(byte, b'.' | b'/' | 0))
}

fn is_plain_key(text: &[u8]) -> bool {
    // Without an early end, for vector instructions.
    let is_odd = |odd, pair: &[u8]| odd | (pair[0] == b'/') & (pair[1] == b'.') | (pair[1] == 0);
    begins_well(text) && !text.windows(2).fold(false, is_odd)
}

fn is_plain_address(text: &[u8], namespace: &[u8]) -> bool {
    if text.contains(&b':') && text.windows(3).any(|three| three == b"://") {
        after_place(text).is_some_and(begins_well) && !text.starts_with(namespace)
    } else {
        is_plain_key(text) && !has_scheme(text)
    }
}

fn is_plain_uri(text: &[u8]) -> bool {
    let is_part = |part: &[u8]| begins_well(part) && !part.contains(&0);
    after_place(text).is_some_and(|key| key.split(|byte| *byte == b'/').all(is_part))
}

/// Returns the key of a file's or an object's address in its usual spelling.
fn after_place(text: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = text.split_at(text.windows(3).position(|three| three == b"://")?);
    let rest = &rest[3..];
    if scheme == b"file" {
        return rest.strip_prefix(b"/");
    }
    let (place, key) = before_slash(rest)?;
    match scheme {
        b"s3" | b"s3a" => is_s3_bucket(place).then_some(key),
        b"gs" => is_google_bucket(place).then_some(key),
        b"https" => {
            let (container, key) = before_slash(key)?;
            let is_usual = !key.iter().any(|byte| br"\?&@".contains(byte));
            (is_usual && is_azure_host(place) && is_container(container)).then_some(key)
        }
        _ => None,
    }
}

/// Splits a text at its first slash.
fn before_slash(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let slash = text.iter().position(|byte| *byte == b'/')?;
    Some((&text[..slash], &text[slash + 1..]))
}

fn is_s3_bucket(name: &[u8]) -> bool {
    let in_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    (3..=255).contains(&name.len()) && name.iter().all(in_name)
}

fn is_google_bucket(name: &[u8]) -> bool {
    let ends = [name.first(), name.last()];
    let in_name = |byte: &u8| is_low(byte) || b"._-".contains(byte);
    (3..=222).contains(&name.len())
        && name.iter().all(in_name)
        && ends.into_iter().flatten().all(is_low)
}

fn is_azure_host(host: &[u8]) -> bool {
    AZURE_CLOUDS.iter().filter_map(|cloud| host.strip_suffix(*cloud)).any(is_account)
}

/// Returns whether a text is an account, with or without its DNS zone.
fn is_account(text: &[u8]) -> bool {
    let dot = text.iter().position(|byte| *byte == b'.').unwrap_or(text.len());
    let (name, zone) = text.split_at(dot);
    let is_zone = zone.strip_prefix(b".z").is_some_and(|number| {
        (1..=3).contains(&number.len()) && number.iter().all(u8::is_ascii_digit)
    });
    (3..=24).contains(&name.len()) && name.iter().all(is_low) && (zone.is_empty() || is_zone)
}

fn is_container(name: &[u8]) -> bool {
    let name = name.strip_prefix(b"$").unwrap_or(name);
    (3..=63).contains(&name.len()) && name.iter().all(|byte| is_low(byte) || *byte == b'-')
}

fn is_low(byte: &u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// Returns whether a text starts like a URI, such as `s3:/`.
fn has_scheme(text: &[u8]) -> bool {
    let in_scheme = |byte: &u8| byte.is_ascii_alphanumeric() || b"+.-".contains(byte);
    let Some(colon) = text.iter().position(|byte| !in_scheme(byte)) else {
        return false;
    };
    colon > 0 && text[0].is_ascii_alphabetic() && text[colon..].starts_with(b":/")
}
