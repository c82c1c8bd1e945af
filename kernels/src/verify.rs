//! Whole records against their ids, identities and entries.

use crate::bytes::{Items, Outcome, require};
use crate::entry::Entry;
use crate::fields::{Object, identity};
use crate::hashing::{Id, record_id, sha256};

/// Declines records with a wrong order, id, identity or entry.
///
/// `ids` has the expected record ids. `no_metadata` is the part of an identity for entries without
/// user metadata.
pub fn verify(records: &Items, ids: &[Id], no_metadata: &[u8]) -> Outcome<()> {
    require(records.len() == ids.len())?;
    let (mut buffer, mut last): (Vec<u8>, Option<&[u8]>) = (Vec::new(), None);
    for (record, id) in records.iter().zip(ids) {
        let entry = Entry::parse(record)?;
        require(last.is_none_or(|last| last < entry.key))?;
        last = Some(entry.key);
        let (held, _) = entry.parts()?;
        require(record_id(entry.key, &sha256(held)) == *id && entry.id() == id)?;
        if !entry.is_tombstone() {
            let object = Object::parse(&entry)?;
            require(object.is_plain && object.is_text())?;
            let Object { size, checksum, content_type, .. } = object;
            let exact = identity(&mut buffer, size, checksum, no_metadata, content_type);
            require(exact == held)?;
        }
    }
    Ok(())
}
