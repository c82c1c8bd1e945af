//! A record as an entry of a data block: lengths, key, suffix and stored value.

use crate::bytes::{
    Declined, ID_BYTES, Items, NewItems, Outcome, length, part, put_varint, require,
};
use crate::hashing::{record_id, sha256};

/// The suffix of a key in a tree file: sequence number 0 and type 1, a value.
pub const KEY_SUFFIX: [u8; 8] = [1, 0, 0, 0, 0, 0, 0, 0];
const TOMBSTONE_START: [u8; 2] = [0, 0];

/// A record whose entry is plain: it shares no bytes with the key before it.
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    pub key: &'a [u8],
    pub value: &'a [u8],
    /// The bytes before the key.
    pub head: usize,
}

impl<'a> Entry<'a> {
    /// Returns the record in the bytes of one entry.
    #[inline]
    pub fn parse(entry: &'a [u8]) -> Outcome<Self> {
        require(*entry.first().ok_or(Declined)? == 0)?;
        let (own, at) = length(entry, 1)?;
        let (size, head) = length(entry, at)?;
        let end = head.checked_add(own).ok_or(Declined)?;
        require(own > KEY_SUFFIX.len() && size >= ID_BYTES)?;
        require(end.checked_add(size) == Some(entry.len()))?;
        let stop = end - KEY_SUFFIX.len();
        require(entry[stop..end] == KEY_SUFFIX)?;
        Ok(Self { key: &entry[head..stop], value: &entry[end..], head })
    }

    /// Returns the record id at the end of the stored value.
    #[inline]
    pub fn id(&self) -> &'a [u8] {
        &self.value[self.value.len() - ID_BYTES..]
    }

    #[inline]
    pub fn is_tombstone(&self) -> bool {
        self.value.starts_with(&TOMBSTONE_START)
    }

    /// Returns the identity and the message in the stored value.
    #[inline]
    pub fn parts(&self) -> Outcome<(&'a [u8], &'a [u8])> {
        let (double, start) = length(self.value, 0)?;
        let stop = start.checked_add(double >> 1).ok_or(Declined)?;
        let (double, at) = length(self.value, stop)?;
        let end = at.checked_add(double >> 1).ok_or(Declined)?;
        require(end.checked_add(ID_BYTES) == Some(self.value.len()))?;
        Ok((part(self.value, start, stop)?, part(self.value, at, end)?))
    }

    /// Returns whether the record id is that of the key and the identity.
    pub fn holds_its_id(&self) -> Outcome<bool> {
        let (identity, _) = self.parts()?;
        Ok(record_id(self.key, &sha256(identity)) == *self.id())
    }
}

/// Returns the entries of keys and their stored values.
pub fn encode_records(keys: &Items, values: &Items) -> Outcome<NewItems> {
    require(keys.len() == values.len())?;
    let most = keys.total() + values.total() + keys.len() * (1 + 10 + 10 + KEY_SUFFIX.len());
    let mut out = NewItems::with_capacity(keys.len(), most.min(i32::MAX as usize));
    for (key, value) in keys.iter().zip(values.iter()) {
        out.data.push(0);
        put_varint(&mut out.data, (key.len() + KEY_SUFFIX.len()) as u64);
        put_varint(&mut out.data, value.len() as u64);
        out.data.extend_from_slice(key);
        out.data.extend_from_slice(&KEY_SUFFIX);
        out.push(value)?;
    }
    Ok(out)
}

/// Returns the bytes before the key, and the key's bytes, of each entry.
pub fn shapes(entries: &Items) -> Outcome<(Vec<i64>, Vec<i64>)> {
    let mut heads = Vec::with_capacity(entries.len());
    let mut lengths = Vec::with_capacity(entries.len());
    for entry in entries.iter() {
        let entry = Entry::parse(entry)?;
        heads.push(entry.head as i64);
        lengths.push(entry.key.len() as i64);
    }
    Ok((heads, lengths))
}
