//! The bytes around a tree file's blocks: RocksDB's format_version 2.

use crate::bytes::{Declined, Outcome, length, part, put_varint, require, word32, word64};
use crate::entry::KEY_SUFFIX;

pub const TRAILER_BYTES: usize = 5;
pub const FOOTER_BYTES: usize = 53;
/// An upper bound of Snappy's ratio: 3 compressed bytes hold 64 bytes at most.
pub const SNAPPY_RATIO: usize = 22;
pub const PROPERTIES: &[u8] = b"rocksdb.properties";
pub const DIRECTORY: &[u8] = b"sparklake.directory";

pub const UNCOMPRESSED: u8 = 0;
const SNAPPY: u8 = 1;
const CRC32C: u8 = 1;
const FORMAT_VERSION: u32 = 2;
const HANDLES_BYTES: usize = 40;
const MAGIC: u64 = 0x88E2_41B7_85F4_CFF7;
const MASK_DELTA: u32 = 0xA282_EAD8;

/// The place of a block's content in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle {
    pub offset: usize,
    pub size: usize,
}

impl Handle {
    pub fn read(data: &[u8], at: usize) -> Outcome<(Self, usize)> {
        let (offset, at) = length(data, at)?;
        let (size, at) = length(data, at)?;
        Ok((Self { offset, size }, at))
    }

    pub fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, self.offset as u64);
        put_varint(out, self.size as u64);
    }

    /// Returns the position after the block and its trailer.
    pub fn end(&self) -> Outcome<usize> {
        let end = self.offset.checked_add(self.size).ok_or(Declined)?;
        end.checked_add(TRAILER_BYTES).ok_or(Declined)
    }
}

#[inline]
fn masked(checksum: u32) -> u32 {
    checksum.rotate_right(15).wrapping_add(MASK_DELTA)
}

/// Returns the body of a block and its kind of compression, verified by the checksum.
///
/// `handle` is the place in `file`.
#[inline]
pub fn checked(file: &[u8], handle: Handle) -> Outcome<(&[u8], u8)> {
    let block = part(file, handle.offset, handle.end()?)?;
    let covered = part(block, 0, handle.size + 1)?;
    require(masked(crc32c::crc32c(covered)) == word32(block, handle.size + 1)?)?;
    Ok((&covered[..handle.size], covered[handle.size]))
}

/// Returns the content of a verified block of `raw_size` bytes.
///
/// `scratch` holds the content of a compressed block. Its size is checked before it grows.
#[inline]
pub fn content<'a>(
    (body, kind): (&'a [u8], u8),
    raw_size: usize,
    scratch: &'a mut Vec<u8>,
) -> Outcome<&'a [u8]> {
    match kind {
        UNCOMPRESSED => {
            require(body.len() == raw_size)?;
            Ok(body)
        }
        SNAPPY => {
            let size = snap::raw::decompress_len(body).map_err(|_| Declined)?;
            require(size == raw_size && size <= SNAPPY_RATIO.saturating_mul(body.len() + 1))?;
            scratch.resize(size, 0);
            let mut decoder = snap::raw::Decoder::new();
            let count = decoder.decompress(body, scratch).map_err(|_| Declined)?;
            require(count == size)?;
            Ok(scratch)
        }
        _ => Err(Declined),
    }
}

/// Returns the content of a block that is not compressed.
pub fn plain_content(file: &[u8], handle: Handle) -> Outcome<&[u8]> {
    let (body, kind) = checked(file, handle)?;
    require(kind == UNCOMPRESSED)?;
    Ok(body)
}

/// The reused buffers of an encoder.
pub struct Packer {
    encoder: snap::raw::Encoder,
    body: Vec<u8>,
}

impl Default for Packer {
    fn default() -> Self {
        Self { encoder: snap::raw::Encoder::new(), body: Vec::new() }
    }
}

impl Packer {
    /// Appends a block; compressed, if `compress` and if that saves an eighth.
    pub fn add(&mut self, out: &mut Vec<u8>, block: &[u8], compress: bool) -> Outcome<Handle> {
        let handle = Handle { offset: out.len(), size: block.len() };
        if compress {
            self.body.resize(snap::raw::max_compress_len(block.len()), 0);
            let size = self.encoder.compress(block, &mut self.body).map_err(|_| Declined)?;
            if size * 8 <= block.len() * 7 {
                out.extend_from_slice(&self.body[..size]);
                put_trailer(out, handle.offset, SNAPPY);
                return Ok(Handle { size, ..handle });
            }
        }
        out.extend_from_slice(block);
        put_trailer(out, handle.offset, UNCOMPRESSED);
        Ok(handle)
    }
}

/// Appends the trailer of the block that starts at `start`.
pub fn put_trailer(out: &mut Vec<u8>, start: usize, kind: u8) {
    out.push(kind);
    let checksum = masked(crc32c::crc32c(&out[start..]));
    out.extend_from_slice(&checksum.to_le_bytes());
}

/// Appends the trailer of an uncompressed block that starts at `start`.
pub fn end_plain(out: &mut Vec<u8>, start: usize) -> Handle {
    let handle = Handle { offset: start, size: out.len() - start };
    put_trailer(out, start, UNCOMPRESSED);
    handle
}

/// A block of a few items in key order, each readable separately.
#[derive(Default)]
pub struct SmallBlock {
    entries: Vec<u8>,
    starts: Vec<u32>,
}

impl SmallBlock {
    pub fn add(&mut self, key: &[&[u8]], value: &[u8]) -> Outcome<()> {
        self.starts.push(u32::try_from(self.entries.len()).map_err(|_| Declined)?);
        self.entries.push(0);
        put_varint(&mut self.entries, key.iter().map(|each| each.len() as u64).sum());
        put_varint(&mut self.entries, value.len() as u64);
        key.iter().for_each(|each| self.entries.extend_from_slice(each));
        self.entries.extend_from_slice(value);
        Ok(())
    }

    /// Returns the content of the block.
    pub fn ended(mut self) -> Vec<u8> {
        for start in &self.starts {
            self.entries.extend_from_slice(&start.to_le_bytes());
        }
        self.entries.extend_from_slice(&(self.starts.len() as u32).to_le_bytes());
        self.entries
    }
}

/// Returns the index of data blocks, each with its last key and its place.
pub fn index_content<'a>(blocks: impl Iterator<Item = (&'a [u8], Handle)>) -> Outcome<Vec<u8>> {
    let (mut index, mut handle) = (SmallBlock::default(), Vec::new());
    for (last_key, place) in blocks {
        handle.clear();
        place.put(&mut handle);
        index.add(&[last_key, &KEY_SUFFIX], &handle)?;
    }
    Ok(index.ended())
}

/// Appends the footer of a file.
pub fn put_footer(out: &mut Vec<u8>, meta_index: Handle, index: Handle) {
    out.push(CRC32C);
    let start = out.len();
    meta_index.put(out);
    index.put(out);
    out.resize(start + HANDLES_BYTES, 0);
    out.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    out.extend_from_slice(&MAGIC.to_le_bytes());
}

/// Returns the handles of the metaindex and of the index in the last bytes of a file.
pub fn footer(tail: &[u8]) -> Outcome<(Handle, Handle)> {
    let start = tail.len().checked_sub(FOOTER_BYTES).ok_or(Declined)?;
    let footer = &tail[start..];
    require(footer[0] == CRC32C)?;
    require(word32(footer, 1 + HANDLES_BYTES)? == FORMAT_VERSION)?;
    require(word64(footer, 1 + HANDLES_BYTES + 4)? == MAGIC)?;
    let (meta_index, at) = Handle::read(footer, 1)?;
    let (index, _) = Handle::read(footer, at)?;
    Ok((meta_index, index))
}

/// Calls a function with the key and the value of each item of a small block.
///
/// Declines shared prefixes, which only other writers use.
pub fn each_item(block: &[u8], mut visit: impl FnMut(&[u8], &[u8]) -> Outcome<()>) -> Outcome<()> {
    let size = block.len();
    let count = word32(block, size.checked_sub(4).ok_or(Declined)?)? as usize;
    let places = count.checked_add(1).and_then(|each| each.checked_mul(4)).ok_or(Declined)?;
    let end = size.checked_sub(places).ok_or(Declined)?;
    let mut at = 0;
    while at < end {
        require(block[at] == 0)?;
        let (own, next) = length(block, at + 1)?;
        let (size, start) = length(block, next)?;
        let stop = start.checked_add(own).ok_or(Declined)?;
        let after = stop.checked_add(size).ok_or(Declined)?;
        require(after <= end)?;
        visit(&block[start..stop], &block[stop..after])?;
        at = after;
    }
    Ok(())
}
