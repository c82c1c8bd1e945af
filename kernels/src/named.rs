//! The objects that records name, to compare with a listing.

use crate::bytes::{Items, NewItems, Outcome, arrays, require};
use crate::entry::Entry;
use crate::fields::Object;
use crate::hashing::sha256;

/// Objects in columns. Addresses are whole. `hashes` has the first half of each address's hash.
pub struct Named {
    pub address: NewItems,
    pub checksum: NewItems,
    pub size: Vec<i64>,
    pub hashes: [Vec<u64>; 2],
}

/// Returns the objects in records, all of which must be plain and have relative addresses.
///
/// A whole address is `prefix`, which must be text, and the relative one.
pub fn named(records: &Items, prefix: &[u8]) -> Outcome<Named> {
    require(std::str::from_utf8(prefix).is_ok())?;
    let (count, bytes) = (records.len(), records.total());
    let mut out = Named {
        address: NewItems::with_capacity(
            count,
            bytes / 4 + count.saturating_mul(prefix.len()).min(bytes),
        ),
        checksum: NewItems::with_capacity(count, bytes / 6),
        size: Vec::with_capacity(count),
        hashes: [Vec::with_capacity(count), Vec::with_capacity(count)],
    };
    for record in records.iter() {
        let entry = Entry::parse(record)?;
        require(!entry.is_tombstone())?;
        let object = Object::parse(&entry)?;
        require(object.is_plain && object.is_relative() && object.is_text())?;
        let begin = out.address.data.len();
        out.address.data.extend_from_slice(prefix);
        out.address.push(object.address)?;
        let hash = sha256(&out.address.data[begin..]);
        let (words, _) = arrays::<_, 8>(&hash);
        for (column, word) in out.hashes.iter_mut().zip(words) {
            column.push(u64::from_le_bytes(*word));
        }
        out.checksum.push(object.checksum)?;
        out.size.push(object.size);
    }
    Ok(out)
}
