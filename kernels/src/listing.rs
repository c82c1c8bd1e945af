//! Listings: the objects in records as columns, in one pass over the bytes.

use crate::bytes::{Items, NewItems, Outcome, require};
use crate::entry::Entry;
use crate::fields::Object;
use crate::hashing::Id;
use crate::ranges::Output;
use crate::tables::{Pool, Side};
use crate::texts::require_text;

const SECOND_MICROS: i64 = 1_000_000;
const MICROSECOND: i64 = 1000;
/// Seconds after the year 1, and before the year 10000, with room for more than a second of nanos.
const FIRST_SECOND: i64 = -62_135_596_790;
const LAST_SECOND: i64 = 253_402_300_789;

/// Objects in columns. Times are in unix microseconds. Addresses are whole.
pub struct Listing<'a> {
    pub path: NewItems,
    pub size: Vec<i64>,
    pub checksum: NewItems,
    pub mtime: Vec<i64>,
    pub address: NewItems,
    pub content_type: NewItems,
    /// What is put before relative addresses.
    prefix: &'a [u8],
}

impl<'a> Listing<'a> {
    /// Returns no objects yet. About `count` in `bytes` of entries are expected.
    pub fn new(prefix: &'a [u8], count: usize, bytes: usize) -> Self {
        let items = |bytes| NewItems::with_capacity(count, bytes);
        Self {
            path: items(bytes / 6),
            size: Vec::with_capacity(count),
            checksum: items(bytes / 6),
            mtime: Vec::with_capacity(count),
            address: items(bytes / 4 + count.saturating_mul(prefix.len()).min(bytes)),
            content_type: items(bytes / 8),
            prefix,
        }
    }

    /// Adds an object; declines what only the fallback shows, such as user metadata.
    #[inline]
    fn add(&mut self, entry: &Entry) -> Outcome<()> {
        let object = Object::parse(entry)?;
        require(object.is_plain && (FIRST_SECOND..LAST_SECOND).contains(&object.seconds))?;
        self.path.push(entry.key)?;
        self.size.push(object.size);
        self.checksum.push(object.checksum)?;
        self.mtime.push(object.seconds * SECOND_MICROS + object.nanos / MICROSECOND);
        if object.is_relative() {
            self.address.data.extend_from_slice(self.prefix);
        } else {
            require(object.is_full())?;
        }
        self.address.push(object.address)?;
        self.content_type.push(object.content_type)
    }

    /// Returns the objects, if all texts are UTF-8.
    pub fn checked(self) -> Outcome<Self> {
        for column in [&self.path, &self.checksum, &self.address, &self.content_type] {
            require_text(&column.items()?)?;
        }
        Ok(self)
    }
}

impl<'a> Output<'a> for Listing<'_> {
    fn push_block(&mut self, side: &mut Side<'a>, _: &mut Pool) -> Outcome<()> {
        side.open()?;
        (side.row..side.stop).try_for_each(|row| self.add(&side.leaf.entry(row)?))
    }

    fn push(&mut self, entry: &[u8], _: &Id, _: &mut Pool) -> Outcome<()> {
        self.add(&Entry::parse(entry)?)
    }
}

/// Returns the objects in entries.
pub fn of_entries<'a>(entries: &Items, prefix: &'a [u8]) -> Outcome<Listing<'a>> {
    let mut out = Listing::new(prefix, entries.len(), entries.total());
    for entry in entries.iter() {
        out.add(&Entry::parse(entry)?)?;
    }
    out.checked()
}
