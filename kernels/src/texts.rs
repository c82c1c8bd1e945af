//! Checks of paths and addresses. Texts that pass need no check by itself.

use crate::bytes::{Declined, Items, Outcome, require};

const BUCKET_BYTES: std::ops::RangeInclusive<usize> = 3..=255;

/// Declines a column with an item that is not UTF-8.
pub fn require_text(items: &Items) -> Outcome<()> {
    let text = std::str::from_utf8(items.run(0, items.len())).map_err(|_| Declined)?;
    require(items.ends().all(|end| text.is_char_boundary(end)))
}

/// Returns which texts are keys without NUL, a leading '/', or parts that start with '.'.
pub fn plain_keys(items: &Items) -> Outcome<Vec<bool>> {
    require_text(items)?;
    Ok(items.iter().map(is_plain_key).collect())
}

/// Returns which texts are plain keys, or plain URIs that do not start with a namespace.
pub fn plain_addresses(items: &Items, namespace: &[u8]) -> Outcome<Vec<bool>> {
    require_text(items)?;
    Ok(items.iter().map(|text| is_plain_address(text, namespace)).collect())
}

/// Returns which texts are URIs of which no part is empty, starts with '.' or has a NUL.
pub fn plain_uris(items: &Items) -> Outcome<Vec<bool>> {
    require_text(items)?;
    Ok(items.iter().map(is_plain_uri).collect())
}

fn begins_well(text: &[u8]) -> bool {
    text.first().is_some_and(|byte| !matches!(byte, b'.' | b'/' | 0))
}

fn is_plain_key(text: &[u8]) -> bool {
    let is_sound = |pair: &[u8]| pair != b"/." && pair[1] != 0;
    begins_well(text) && text.windows(2).all(is_sound)
}

fn is_plain_address(text: &[u8], namespace: &[u8]) -> bool {
    if text.windows(3).any(|three| three == b"://") {
        after_place(text).is_some_and(begins_well) && !text.starts_with(namespace)
    } else {
        is_plain_key(text) && !has_scheme(text)
    }
}

fn is_plain_uri(text: &[u8]) -> bool {
    let is_part = |part: &[u8]| begins_well(part) && !part.contains(&0);
    after_place(text).is_some_and(|key| key.split(|byte| *byte == b'/').all(is_part))
}

/// Returns what follows `s3://bucket/`, `s3a://bucket/` or `file:///`.
fn after_place(text: &[u8]) -> Option<&[u8]> {
    if let Some(path) = text.strip_prefix(b"file:///") {
        return Some(path);
    }
    let rest = text.strip_prefix(b"s3")?;
    let rest = rest.strip_prefix(b"a").unwrap_or(rest).strip_prefix(b"://")?;
    let slash = rest.iter().position(|byte| *byte == b'/')?;
    let in_bucket = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    let is_bucket = BUCKET_BYTES.contains(&slash) && rest[..slash].iter().all(in_bucket);
    is_bucket.then_some(&rest[slash + 1..])
}

/// Returns whether a text starts like a URI, such as `s3:/`.
fn has_scheme(text: &[u8]) -> bool {
    let in_scheme = |byte: &u8| byte.is_ascii_alphanumeric() || b"+.-".contains(byte);
    let Some(colon) = text.iter().position(|byte| !in_scheme(byte)) else {
        return false;
    };
    colon > 0 && text[0].is_ascii_alphabetic() && text[colon..].starts_with(b":/")
}
