//! Reads of sparklake's own tree files: a directory, data blocks, and single keys.

use crate::bytes::{
    Declined, ID_BYTES, Keys, NewItems, Outcome, arrays, part, position, require, word32, word64,
};
use crate::entry::Entry;
use crate::format::{
    DIRECTORY, FOOTER_BYTES, Handle, SNAPPY_RATIO, TRAILER_BYTES, checked, content, each_item,
    footer, index_content, plain_content,
};
use crate::hashing::Id;

/// The rows of a directory's numbers.
pub const COLUMNS: usize = 9;
pub const COUNT: usize = 0;
pub const OFFSET: usize = 1;
pub const SIZE: usize = 2;
pub const RAW_SIZE: usize = 3;
pub const KEY_BYTES: usize = 4;
pub const VALUE_BYTES: usize = 5;
pub const TOMBSTONES: usize = 6;
pub const FIRST_KEY_BYTES: usize = 7;
pub const LAST_KEY_BYTES: usize = 8;

/// The content of a tree file's directory. `numbers` has `blocks` numbers for each of COLUMNS.
#[derive(Debug, PartialEq, Eq)]
pub struct Directory {
    pub ids: Vec<Id>,
    pub numbers: Vec<i64>,
    pub blocks: usize,
    /// The first keys of the data blocks, then the last keys.
    pub keys: Vec<u8>,
}

impl Directory {
    /// Returns the last key and the place of each data block.
    fn last_keys(&self) -> impl Iterator<Item = (&[u8], Handle)> {
        let column = |number| &self.numbers[number * self.blocks..(number + 1) * self.blocks];
        let mut end = column(FIRST_KEY_BYTES).iter().sum::<i64>() as usize;
        let places = column(OFFSET).iter().zip(column(SIZE));
        column(LAST_KEY_BYTES).iter().zip(places).map(move |(length, (offset, size))| {
            let start = end;
            end += *length as usize;
            let place = Handle { offset: *offset as usize, size: *size as usize };
            (&self.keys[start..end], place)
        })
    }
}

/// The directory of a tree file, or the position from which its reader needs the bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum Ending {
    Directory(Directory),
    NeededFrom(usize),
}

/// Reads the directory from the end of a tree file of `file_bytes` bytes, and checks all other
/// blocks after the data. The index must have its last keys.
pub fn read_ending(tail: &[u8], file_bytes: usize) -> Outcome<Ending> {
    let base = file_bytes.checked_sub(tail.len()).ok_or(Declined)?;
    let (meta_index, index) = footer(tail)?;
    require(file_bytes >= FOOTER_BYTES)?;
    let inside = |handle: Handle| {
        require(handle.end()? <= file_bytes)?;
        Ok(handle.offset.checked_sub(base).map(|offset| Handle { offset, ..handle }))
    };
    let Some(place) = inside(meta_index)? else {
        return Ok(Ending::NeededFrom(meta_index.offset));
    };
    let (mut directory, mut others) = (None, Vec::new());
    each_item(plain_content(tail, place)?, |name, value| {
        let (handle, _) = Handle::read(value, 0)?;
        if name == DIRECTORY {
            require(directory.is_none())?;
            directory = Some(handle);
        } else {
            others.push(handle);
        }
        Ok(())
    })?;
    let directory = directory.ok_or(Declined)?;
    let first = directory.offset.min(index.offset);
    let lowest = others.iter().fold(first, |low, each| low.min(each.offset));
    if lowest < base {
        for each in others.iter().chain([&directory, &index]) {
            inside(*each)?;
        }
        return Ok(Ending::NeededFrom(lowest));
    }
    let place = inside(directory)?.ok_or(Declined)?;
    let found = read_directory(plain_content(tail, place)?, directory.offset)?;
    for each in others {
        checked(tail, inside(each)?.ok_or(Declined)?)?;
    }
    let (expected, mut scratch) = (index_content(found.last_keys())?, Vec::new());
    let index = checked(tail, inside(index)?.ok_or(Declined)?)?;
    require(content(index, expected.len(), &mut scratch)? == expected)?;
    Ok(Ending::Directory(found))
}

/// Returns the directory in a block. The data blocks are the first `data_bytes` of the file.
pub fn read_directory(block: &[u8], data_bytes: usize) -> Outcome<Directory> {
    let records = usize::try_from(word64(block, 0)?).map_err(|_| Declined)?;
    let blocks = usize::try_from(word64(block, 8)?).map_err(|_| Declined)?;
    require(0 < blocks && blocks <= records)?;
    let words_end = blocks.checked_mul(8 * COLUMNS).and_then(|size| size.checked_add(16));
    let words_end = words_end.ok_or(Declined)?;
    let id_bytes = records.checked_mul(ID_BYTES).ok_or(Declined)?;
    let ids_end = words_end.checked_add(id_bytes).ok_or(Declined)?;
    let words = arrays::<_, 8>(part(block, 16, words_end)?).0;
    let ids = arrays(part(block, words_end, ids_end)?).0.to_vec();
    let keys = &block[ids_end..];
    let numbers: Vec<i64> = words.iter().map(|word| i64::from_le_bytes(*word)).collect();
    check_numbers(&numbers, blocks, records, data_bytes, keys.len())?;
    check_keys(&numbers[FIRST_KEY_BYTES * blocks..(LAST_KEY_BYTES + 1) * blocks], keys)?;
    Ok(Directory { ids, numbers, blocks, keys: keys.to_vec() })
}

/// Declines impossible numbers of a data block.
fn check_numbers(
    numbers: &[i64],
    blocks: usize,
    records: usize,
    data_bytes: usize,
    key_bytes: usize,
) -> Outcome<()> {
    let mut total = 0usize;
    let mut end = 0usize;
    let mut keys = 0usize;
    for block in 0..blocks {
        let number = |column: usize| position(numbers[column * blocks + block]);
        let (count, offset, size) = (number(COUNT)?, number(OFFSET)?, number(SIZE)?);
        let raw_size = number(RAW_SIZE)?;
        require(count >= 1 && count <= records && offset >= end)?;
        require(offset <= data_bytes && size <= data_bytes)?;
        require(raw_size <= SNAPPY_RATIO.checked_mul(size + 1).ok_or(Declined)?)?;
        require(number(KEY_BYTES)? <= raw_size && number(VALUE_BYTES)? <= raw_size)?;
        require(number(TOMBSTONES)? <= count)?;
        end = offset + size + TRAILER_BYTES;
        total += count;
        for column in [FIRST_KEY_BYTES, LAST_KEY_BYTES] {
            let length = number(column)?;
            require(length <= key_bytes)?;
            keys += length;
        }
    }
    require(end <= data_bytes && total == records && keys == key_bytes)
}

/// Declines first and last keys of data blocks that do not ascend.
fn check_keys(lengths: &[i64], mut keys: &[u8]) -> Outcome<()> {
    let mut each = Vec::with_capacity(lengths.len());
    for length in lengths {
        let (key, others) = keys.split_at_checked(position(*length)?).ok_or(Declined)?;
        each.push(key);
        keys = others;
    }
    let (firsts, lasts) = each.split_at(lengths.len() / 2);
    require(firsts.iter().zip(lasts).all(|(first, last)| first <= last))?;
    require(lasts.iter().zip(&firsts[1..]).all(|(last, next)| last < next))
}

/// A data block: its place, the size of its content, and its number of records.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub handle: Handle,
    pub raw_size: usize,
    pub count: usize,
}

/// The content of a data block, verified by its checksum and by its numbers.
pub struct OpenBlock<'a> {
    pub entries: &'a [u8],
    places: &'a [[u8; 4]],
}

impl<'a> OpenBlock<'a> {
    /// Returns the data block at a place in `file`. `scratch` holds compressed content.
    #[inline]
    pub fn open(file: &'a [u8], place: Place, scratch: &'a mut Vec<u8>) -> Outcome<Self> {
        let bytes = content(checked(file, place.handle)?, place.raw_size, scratch)?;
        Self::of(bytes, place.count)
    }

    fn of(bytes: &'a [u8], count: usize) -> Outcome<Self> {
        let end = entry_bytes(bytes.len(), count)?;
        require(word32(bytes, bytes.len() - 4)? as usize == count)?;
        let places = arrays::<_, 4>(&bytes[end..bytes.len() - 4]).0;
        require(places.len() == count && count > 0)?;
        let opened = Self { entries: &bytes[..end], places };
        require(opened.place(0) == 0)?;
        Ok(opened)
    }

    pub fn count(&self) -> usize {
        self.places.len()
    }

    #[inline]
    fn place(&self, row: usize) -> usize {
        match self.places.get(row) {
            Some(place) => u32::from_le_bytes(*place) as usize,
            None => self.entries.len(),
        }
    }

    /// Declines a data block in the place of another one, which ends with another key.
    fn must_end_with(&self, last_key: &[u8]) -> Outcome<()> {
        require(Entry::parse(self.entry(self.count() - 1)?)?.key == last_key)
    }

    /// Returns the stored value of a key, or None.
    pub fn find(&self, key: &[u8]) -> Outcome<Option<&'a [u8]>> {
        let (mut low, mut high) = (0, self.count());
        while low < high {
            let middle = low + (high - low) / 2;
            if Entry::parse(self.entry(middle)?)?.key < key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        if low == self.count() {
            return Ok(None);
        }
        let found = Entry::parse(self.entry(low)?)?;
        if found.key != key {
            return Ok(None);
        }
        require(found.holds_its_id()?)?;
        Ok(Some(found.value))
    }

    /// Returns the bytes of an entry.
    #[inline]
    pub fn entry(&self, row: usize) -> Outcome<&'a [u8]> {
        part(self.entries, self.place(row), self.place(row + 1))
    }
}

/// Returns the number of entry bytes in the content of a data block.
pub fn entry_bytes(raw_size: usize, count: usize) -> Outcome<usize> {
    let places = count.checked_add(1).and_then(|each| each.checked_mul(4)).ok_or(Declined)?;
    raw_size.checked_sub(places).ok_or(Declined)
}

/// Returns the records in data blocks, each in one of some files.
///
/// `last_ids` has the last record id of each data block, by which blocks in each other's places
/// are detected.
pub fn open_blocks(
    files: &[&[u8]],
    blocks: &[(usize, Place)],
    last_ids: &[Id],
) -> Outcome<NewItems> {
    let (records, bytes) = expected(files, blocks)?;
    let mut out = NewItems::with_capacity(records, bytes);
    each_block(files, blocks, last_ids, |block| {
        let begin = out.data.len();
        out.data.extend_from_slice(block.entries);
        for row in 0..block.count() {
            let end = begin + block.place(row + 1);
            out.bounds.push(i32::try_from(end).map_err(|_| Declined)?);
        }
        Ok(())
    })?;
    Ok(out)
}

/// Returns the number of records in data blocks, and the bytes of their entries.
///
/// The content of a block is not larger than its file allows, so memory may be allocated for it.
fn expected(files: &[&[u8]], blocks: &[(usize, Place)]) -> Outcome<(usize, usize)> {
    let (mut records, mut bytes) = (0usize, 0usize);
    for (file, place) in blocks {
        let size = files.get(*file).ok_or(Declined)?.len();
        require(place.handle.end()? <= size)?;
        require(place.raw_size <= SNAPPY_RATIO.saturating_mul(place.handle.size + 1))?;
        bytes = bytes.checked_add(entry_bytes(place.raw_size, place.count)?).ok_or(Declined)?;
        records = records.checked_add(place.count).ok_or(Declined)?;
    }
    require(bytes <= i32::MAX as usize)?;
    Ok((records, bytes))
}

/// Calls a function with each data block.
///
/// Keys must be in order. The last record of each block must have its id in `last_ids`, and the
/// first and the last record of all must have the ids of their keys and identities.
fn each_block(
    files: &[&[u8]],
    blocks: &[(usize, Place)],
    last_ids: &[Id],
    mut visit: impl FnMut(&OpenBlock) -> Outcome<()>,
) -> Outcome<()> {
    require(blocks.len() == last_ids.len())?;
    let (mut scratch, mut reached) = (Vec::new(), Vec::new());
    for (number, ((file, place), last_id)) in blocks.iter().zip(last_ids).enumerate() {
        let file = files.get(*file).ok_or(Declined)?;
        let block = OpenBlock::open(file, *place, &mut scratch)?;
        let mut previous = (number > 0).then_some(reached.as_slice());
        for row in 0..block.count() {
            let key = Entry::parse(block.entry(row)?)?.key;
            require(previous.is_none_or(|each| each < key))?;
            previous = Some(key);
        }
        visit(&block)?;
        let last = Entry::parse(block.entry(block.count() - 1)?)?;
        require(last.id() == last_id)?;
        if number == 0 {
            require(Entry::parse(block.entry(0)?)?.holds_its_id()?)?;
        }
        if number + 1 == blocks.len() {
            require(last.holds_its_id()?)?;
        }
        reached = last.key.to_vec();
    }
    Ok(())
}

/// Returns the stored value of a key in a data block that ends with `last_key`, or None.
pub fn find_stored(
    file: &[u8],
    place: (Handle, usize),
    last_key: &[u8],
    key: &[u8],
) -> Outcome<Option<Vec<u8>>> {
    let (handle, raw_size) = place;
    let mut scratch = Vec::new();
    let bytes = content(checked(file, handle)?, raw_size, &mut scratch)?;
    let count = word32(bytes, bytes.len().checked_sub(4).ok_or(Declined)?)? as usize;
    let block = OpenBlock::of(bytes, count)?;
    block.must_end_with(last_key)?;
    Ok(block.find(key)?.map(<[u8]>::to_vec))
}

/// Returns the stored values of some keys in data blocks of a file, and the rows of these keys.
///
/// `at` has the data block that may contain each key, and `last_keys` the last key of each block.
pub fn find_each(
    file: &[u8],
    blocks: &[Place],
    last_keys: &Keys,
    keys: &Keys,
    at: &[i64],
) -> Outcome<(NewItems, Vec<i64>)> {
    require(keys.len() == at.len() && last_keys.len() == blocks.len())?;
    let (mut values, mut rows) = (NewItems::with_capacity(keys.len(), 0), Vec::new());
    let (mut scratch, mut row) = (Vec::new(), 0);
    while row < at.len() {
        let number = at[row];
        let block = position(number)?;
        let place = blocks.get(block).ok_or(Declined)?;
        let last_key = last_keys.get(block);
        let block = OpenBlock::open(file, *place, &mut scratch)?;
        block.must_end_with(last_key)?;
        while row < at.len() && at[row] == number {
            if let Some(value) = block.find(keys.get(row))? {
                values.push(value)?;
                rows.push(row as i64);
            }
            row += 1;
        }
    }
    Ok((values, rows))
}
