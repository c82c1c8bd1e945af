//! Object entries in columns: the fields of their protobuf messages, and their identities.

use crate::bytes::{
    Declined, ID_BYTES, Items, NewItems, Outcome, put_varint, require, varint, varint_bytes,
};
use crate::entry::Entry;
use crate::hashing::{record_id, sha256};

const ADDRESS: u8 = 0x0A;
const MTIME: u8 = 0x12;
const SIZE: u8 = 0x18;
const CHECKSUM: u8 = 0x22;
const ADDRESS_TYPE: u8 = 0x30;
const CONTENT_TYPE: u8 = 0x3A;
const SECONDS: u8 = 0x08;
const NANOS: u8 = 0x10;

const RELATIVE: u64 = 1;
const FULL: u64 = 2;

const INT_MARK: [u8; 2] = [2, 8];
const STRING_MARK: u8 = 1;

/// The fields of entries. Rows in `odd` have fields that only the fallback decodes.
pub struct Fields {
    pub address: NewItems,
    pub checksum: NewItems,
    pub content_type: NewItems,
    pub size: Vec<i64>,
    pub seconds: Vec<i64>,
    pub nanos: Vec<i64>,
    pub kind: Vec<i64>,
    pub odd: Vec<i64>,
}

/// A reader of the fields of one message, in the order of the fields.
struct Reader<'a> {
    data: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    #[inline]
    fn has(&self, tag: u8) -> bool {
        self.data.get(self.at) == Some(&tag)
    }

    /// Returns a number field, or 0 where it is omitted.
    #[inline]
    fn number(&mut self, tag: u8) -> Outcome<i64> {
        if !self.has(tag) {
            return Ok(0);
        }
        let (number, at) = varint(self.data, self.at + 1)?;
        self.at = at;
        i64::try_from(number).map_err(|_| Declined)
    }

    /// Returns a bytes field, empty where it is omitted.
    #[inline]
    fn text(&mut self, tag: u8) -> Outcome<&'a [u8]> {
        if !self.has(tag) {
            return Ok(&[]);
        }
        let (size, at) = varint(self.data, self.at + 1)?;
        let stop = at.checked_add(usize::try_from(size).map_err(|_| Declined)?);
        let text = self.data.get(at..stop.ok_or(Declined)?).ok_or(Declined)?;
        self.at = at + text.len();
        Ok(text)
    }
}

/// Returns the fields of the objects in records.
pub fn decode(records: &Items) -> Outcome<Fields> {
    let (count, bytes) = (records.len(), records.total());
    let numbers = || Vec::with_capacity(count);
    let mut out = Fields {
        address: NewItems::with_capacity(count, bytes / 4),
        checksum: NewItems::with_capacity(count, bytes / 8),
        content_type: NewItems::with_capacity(count, bytes / 8),
        size: numbers(),
        seconds: numbers(),
        nanos: numbers(),
        kind: numbers(),
        odd: Vec::new(),
    };
    for (row, entry) in records.iter().enumerate() {
        if !decode_one(&Entry::parse(entry)?, &mut out)? {
            out.odd.push(row as i64);
        }
    }
    Ok(out)
}

/// The fields of one entry. It is plain if it has no others.
pub struct Object<'a> {
    pub address: &'a [u8],
    pub checksum: &'a [u8],
    pub content_type: &'a [u8],
    pub size: i64,
    pub seconds: i64,
    pub nanos: i64,
    pub kind: i64,
    pub is_plain: bool,
}

impl<'a> Object<'a> {
    /// Returns the object in a record.
    #[inline]
    pub fn parse(entry: &Entry<'a>) -> Outcome<Self> {
        let (_, message) = entry.parts()?;
        let mut reader = Reader { data: message, at: 0 };
        let address = reader.text(ADDRESS)?;
        let mut inside = Reader { data: reader.text(MTIME)?, at: 0 };
        let (seconds, nanos) = (inside.number(SECONDS)?, inside.number(NANOS)?);
        // Protobuf reads 32 bits of the nanoseconds. The fallback does that.
        require(inside.at == inside.data.len() && nanos <= i64::from(i32::MAX))?;
        let size = reader.number(SIZE)?;
        let checksum = reader.text(CHECKSUM)?;
        let kind = reader.number(ADDRESS_TYPE)?;
        let content_type = reader.text(CONTENT_TYPE)?;
        let is_plain = reader.at == reader.data.len() && kind as u64 <= FULL;
        Ok(Self { address, checksum, content_type, size, seconds, nanos, kind, is_plain })
    }

    pub fn is_relative(&self) -> bool {
        self.kind as u64 == RELATIVE
    }

    pub fn is_full(&self) -> bool {
        self.kind as u64 == FULL
    }

    /// Returns whether all texts are UTF-8.
    pub fn is_text(&self) -> bool {
        let texts = [self.address, self.checksum, self.content_type];
        texts.iter().all(|each| std::str::from_utf8(each).is_ok())
    }
}

/// Appends the fields of one entry; returns false, and appends empty ones, if it is unusual.
#[inline]
fn decode_one(entry: &Entry, out: &mut Fields) -> Outcome<bool> {
    let object = Object::parse(entry)?;
    let shown = |text| if object.is_plain { text } else { &[][..] };
    out.address.push(shown(object.address))?;
    out.checksum.push(shown(object.checksum))?;
    out.content_type.push(shown(object.content_type))?;
    out.size.push(object.size);
    out.seconds.push(object.seconds);
    out.nanos.push(object.nanos);
    out.kind.push(object.kind);
    Ok(object.is_plain)
}

/// The columns of entries to encode.
pub struct Columns<'a> {
    pub keys: Items<'a>,
    pub address: Items<'a>,
    pub checksum: Items<'a>,
    pub content_type: Items<'a>,
    pub size: &'a [i64],
    pub seconds: &'a [i64],
    pub nanos: &'a [i64],
    pub relative: &'a [bool],
    /// The part of an identity for entries without user metadata.
    pub no_metadata: &'a [u8],
}

/// The buffers of an encoder, reused for each row.
#[derive(Default)]
struct Buffers {
    preimage: Vec<u8>,
    message: Vec<u8>,
}

impl Columns<'_> {
    /// Returns the stored values.
    pub fn encode(&self) -> Outcome<NewItems> {
        let count = self.keys.len();
        let items = [self.address.len(), self.checksum.len(), self.content_type.len()];
        let numbers = [self.size.len(), self.seconds.len(), self.nanos.len(), self.relative.len()];
        require(items.iter().chain(&numbers).all(|each| *each == count))?;
        let texts = self.address.total() + self.checksum.total() + self.content_type.total();
        let bytes = (texts + count * (2 * ID_BYTES + 56)).min(i32::MAX as usize);
        let mut out = NewItems::with_capacity(count, bytes);
        let mut buffers = Buffers::default();
        for row in 0..count {
            self.encode_one(row, &mut buffers, &mut out)?;
        }
        Ok(out)
    }

    fn encode_one(&self, row: usize, buffers: &mut Buffers, out: &mut NewItems) -> Outcome<()> {
        let numbers = [self.size[row], self.seconds[row], self.nanos[row]];
        require(numbers.iter().all(|each| *each >= 0))?;
        let (checksum, content_type) = (self.checksum.get(row), self.content_type.get(row));
        let size = self.size[row];
        let identity =
            identity(&mut buffers.preimage, size, checksum, self.no_metadata, content_type);
        self.message(row, &mut buffers.message);
        put_varint(&mut out.data, 2 * ID_BYTES as u64);
        out.data.extend_from_slice(&identity);
        put_varint(&mut out.data, 2 * buffers.message.len() as u64);
        out.data.extend_from_slice(&buffers.message);
        let id = record_id(self.keys.get(row), &sha256(&identity));
        out.push(&id)
    }

    fn message(&self, row: usize, out: &mut Vec<u8>) {
        out.clear();
        put_text(out, ADDRESS, self.address.get(row));
        let (seconds, nanos) = (self.seconds[row] as u64, self.nanos[row] as u64);
        let size = number_bytes(seconds) + number_bytes(nanos);
        if size > 0 {
            out.push(MTIME);
            put_varint(out, size as u64);
            put_number(out, SECONDS, seconds);
            put_number(out, NANOS, nanos);
        }
        put_number(out, SIZE, self.size[row] as u64);
        put_text(out, CHECKSUM, self.checksum.get(row));
        put_number(out, ADDRESS_TYPE, if self.relative[row] { RELATIVE } else { FULL });
        put_text(out, CONTENT_TYPE, self.content_type.get(row));
    }
}

/// Returns the identity of an object. `preimage` is a buffer.
pub fn identity(
    preimage: &mut Vec<u8>,
    size: i64,
    checksum: &[u8],
    metadata: &[u8],
    content_type: &[u8],
) -> [u8; ID_BYTES] {
    preimage.clear();
    preimage.extend_from_slice(&INT_MARK);
    preimage.extend_from_slice(&size.to_be_bytes());
    put_string(preimage, checksum);
    preimage.extend_from_slice(metadata);
    if !content_type.is_empty() {
        put_string(preimage, content_type);
    }
    sha256(preimage)
}

/// Appends the bytes that lakeFS hashes for a string.
fn put_string(out: &mut Vec<u8>, text: &[u8]) {
    out.push(STRING_MARK);
    out.extend_from_slice(&INT_MARK);
    out.extend_from_slice(&(text.len() as u64).to_be_bytes());
    out.extend_from_slice(text);
}

/// Appends a bytes field, unless it is empty.
fn put_text(out: &mut Vec<u8>, tag: u8, text: &[u8]) {
    if !text.is_empty() {
        out.push(tag);
        put_varint(out, text.len() as u64);
        out.extend_from_slice(text);
    }
}

/// Appends a number field, unless it is 0.
fn put_number(out: &mut Vec<u8>, tag: u8, number: u64) {
    if number != 0 {
        out.push(tag);
        put_varint(out, number);
    }
}

/// Returns the size of a number field.
fn number_bytes(number: u64) -> usize {
    if number == 0 { 0 } else { 1 + varint_bytes(number) }
}
