//! Writing of complete tree files from records, and from data blocks of other tree files.

use crate::bytes::put_varint;
use crate::bytes::{Declined, ID_BYTES, Items, Outcome, position, require};
use crate::entry::{Entry, KEY_SUFFIX};
use crate::format::{
    DIRECTORY, Handle, PROPERTIES, Packer, SmallBlock, TRAILER_BYTES, checked, end_plain,
    index_content, put_footer,
};
use crate::hashing::Id;
use crate::read::{
    COLUMNS, COUNT, FIRST_KEY_BYTES, KEY_BYTES, LAST_KEY_BYTES, OFFSET, OpenBlock, Place, RAW_SIZE,
    SIZE, TOMBSTONES, VALUE_BYTES,
};

/// A data block ends after a record whose id's first byte is divisible by this.
const BLOCK_RECORDS: u8 = 64;
const CAP: usize = 4 * BLOCK_RECORDS as usize;

/// A tree file from which data blocks are copied. `content` starts at `base` in the file.
pub struct Source<'a> {
    pub content: &'a [u8],
    pub base: i64,
    /// The numbers of its directory.
    pub numbers: &'a [i64],
    pub blocks: usize,
    /// The first keys of the data blocks, then the last keys.
    pub keys: &'a [u8],
}

impl Source<'_> {
    /// Returns the bytes of some data blocks.
    fn packed_bytes(&self, first: usize, stop: usize) -> usize {
        let sizes = self.numbers.get(SIZE * self.blocks..(SIZE + 1) * self.blocks);
        let sizes = sizes.and_then(|sizes| sizes.get(first..stop)).unwrap_or_default();
        let trailers = sizes.len() * TRAILER_BYTES;
        let sizes = sizes.iter().map(|size| usize::try_from(*size).unwrap_or_default());
        sizes.fold(trailers, usize::saturating_add)
    }
}

/// Consecutive records of a new tree file.
pub enum Unit<'a> {
    Encoded(Items<'a>),
    /// Data blocks of a source, from the first one up to and without `stop`.
    Packed {
        source: usize,
        first: usize,
        stop: usize,
    },
}

/// A new tree file. `size` is the bytes of its records' keys and stored values.
pub struct NewTable {
    pub file: Vec<u8>,
    pub size: i64,
    pub tombstones: i64,
}

/// The bounds of the keys of a source's data blocks.
struct KeyBounds {
    ends: Vec<usize>,
}

impl KeyBounds {
    fn of(source: &Source) -> Outcome<Self> {
        let blocks = source.blocks;
        require(source.numbers.len() == COLUMNS.checked_mul(blocks).ok_or(Declined)?)?;
        let lengths = &source.numbers[FIRST_KEY_BYTES * blocks..(LAST_KEY_BYTES + 1) * blocks];
        let mut ends = Vec::with_capacity(lengths.len() + 1);
        let mut end = 0usize;
        ends.push(end);
        for length in lengths {
            end = end.checked_add(position(*length)?).ok_or(Declined)?;
            ends.push(end);
        }
        require(end == source.keys.len())?;
        Ok(Self { ends })
    }

    fn key<'a>(&self, source: &Source<'a>, at: usize) -> &'a [u8] {
        &source.keys[self.ends[at]..self.ends[at + 1]]
    }
}

/// The numbers of data blocks, block by block, and their keys.
#[derive(Default)]
struct Rows {
    numbers: Vec<[i64; COLUMNS]>,
    first_keys: Vec<u8>,
    last_keys: Vec<u8>,
    last_starts: Vec<usize>,
    has_key: bool,
    last_key: Vec<u8>,
}

impl Rows {
    /// Adds a data block; declines keys that do not ascend.
    fn add(&mut self, numbers: [i64; COLUMNS], first: &[u8], last: &[u8]) -> Outcome<()> {
        require(!self.has_key || self.last_key.as_slice() < first)?;
        self.has_key = true;
        self.last_key.clear();
        self.last_key.extend_from_slice(last);
        self.numbers.push(numbers);
        self.first_keys.extend_from_slice(first);
        self.last_starts.push(self.last_keys.len());
        self.last_keys.extend_from_slice(last);
        Ok(())
    }

    fn last_key(&self, row: usize) -> &[u8] {
        let stop = self.last_starts.get(row + 1).copied().unwrap_or(self.last_keys.len());
        &self.last_keys[self.last_starts[row]..stop]
    }

    fn sum(&self, column: usize) -> i64 {
        self.numbers.iter().map(|row| row[column]).sum()
    }
}

/// Returns the number of records in the data block of a new tree file that starts with an id.
pub fn block_length(ids: &[Id]) -> usize {
    let most = ids.len().min(CAP);
    ids[..most].iter().position(|id| id[0] % BLOCK_RECORDS == 0).map_or(most, |at| at + 1)
}

/// A new data block under construction.
#[derive(Default)]
struct NewBlock {
    body: Vec<u8>,
    places: Vec<u8>,
    numbers: [i64; COLUMNS],
    first_key: Vec<u8>,
    last_key: Vec<u8>,
}

impl NewBlock {
    fn clear(&mut self) {
        self.body.clear();
        self.places.clear();
        self.numbers = [0; COLUMNS];
    }

    /// Counts an entry whose bytes are the next ones of the body.
    #[inline]
    fn count(&mut self, place: usize, entry: &Entry) -> Outcome<()> {
        let place = u32::try_from(place).map_err(|_| Declined)?;
        self.places.extend_from_slice(&place.to_le_bytes());
        self.numbers[COUNT] += 1;
        self.numbers[KEY_BYTES] += entry.key.len() as i64;
        self.numbers[VALUE_BYTES] += entry.value.len() as i64;
        self.numbers[TOMBSTONES] += i64::from(entry.is_tombstone());
        Ok(())
    }

    /// Ends the content of the block, which `first_key` and `last_key` describe.
    fn end(&mut self) {
        self.body.extend_from_slice(&self.places);
        self.body.extend_from_slice(&(self.numbers[COUNT] as u32).to_le_bytes());
        self.numbers[RAW_SIZE] = self.body.len() as i64;
        self.numbers[FIRST_KEY_BYTES] = self.first_key.len() as i64;
        self.numbers[LAST_KEY_BYTES] = self.last_key.len() as i64;
    }
}

/// The place of the next record in the units.
#[derive(Default, Clone, Copy)]
struct Cursor {
    unit: usize,
    /// The entry in an encoded unit, or the record in the current data block.
    row: usize,
    /// The data block of a packed unit, counted from its first one.
    block: usize,
}

/// A writer of one tree file.
pub struct Writer<'a> {
    ids: &'a [Id],
    sources: &'a [Source<'a>],
    units: &'a [Unit<'a>],
    keys: Vec<KeyBounds>,
    compress: bool,
    packer: Packer,
    scratch: Vec<u8>,
    out: Vec<u8>,
    rows: Rows,
    done: usize,
}

impl<'a> Writer<'a> {
    pub fn new(
        ids: &'a [Id],
        sources: &'a [Source<'a>],
        units: &'a [Unit<'a>],
        compress: bool,
        out: Vec<u8>,
    ) -> Outcome<Self> {
        let keys = sources.iter().map(KeyBounds::of).collect::<Outcome<Vec<_>>>()?;
        let (packer, scratch, rows) = (Packer::default(), Vec::new(), Rows::default());
        Ok(Self { ids, sources, units, keys, compress, packer, scratch, out, rows, done: 0 })
    }

    /// Returns the tree file. `fixed` are the properties that all tree files have.
    pub fn run(mut self, fixed: &[(Vec<u8>, Vec<u8>)]) -> Outcome<NewTable> {
        require(!self.ids.is_empty())?;
        self.out.clear();
        self.out.reserve(self.expected_bytes());
        let mut cursor = Cursor::default();
        let mut block = NewBlock::default();
        while self.done < self.ids.len() {
            let count = block_length(&self.ids[self.done..]);
            if !self.copy(&mut cursor, count)? {
                block.clear();
                self.encode(&mut cursor, count, &mut block)?;
                block.end();
                let handle = self.packer.add(&mut self.out, &block.body, self.compress)?;
                block.numbers[OFFSET] = handle.offset as i64;
                block.numbers[SIZE] = handle.size as i64;
                self.rows.add(block.numbers, &block.first_key, &block.last_key)?;
            }
            self.done += count;
        }
        self.skip_empty(&mut cursor)?;
        require(cursor.unit == self.units.len())?;
        self.finish(fixed)
    }

    /// Returns about the size of the file, so that its buffer grows once.
    fn expected_bytes(&self) -> usize {
        let bytes = self.units.iter().map(|unit| match unit {
            Unit::Encoded(items) => items.total(),
            Unit::Packed { source, first, stop } => {
                self.sources.get(*source).map_or(0, |each| each.packed_bytes(*first, *stop))
            }
        });
        let fixed = self.ids.len() * (ID_BYTES + 8) + 4096;
        bytes.fold(fixed, usize::saturating_add).min(1 << 26)
    }

    /// Moves a cursor at the end of a unit to the next unit with a record.
    fn skip_empty(&self, cursor: &mut Cursor) -> Outcome<()> {
        while let Some(unit) = self.units.get(cursor.unit) {
            let is_at_end = match unit {
                Unit::Encoded(items) => cursor.row >= items.len(),
                Unit::Packed { first, stop, .. } => {
                    require(first <= stop)?;
                    cursor.block >= stop - first
                }
            };
            if !is_at_end {
                break;
            }
            *cursor = Cursor { unit: cursor.unit + 1, ..Cursor::default() };
        }
        Ok(())
    }

    /// Returns the source of a packed unit, and the number of the cursor's data block.
    fn source(&self, cursor: &Cursor) -> Outcome<Option<(usize, usize)>> {
        match self.units.get(cursor.unit).ok_or(Declined)? {
            Unit::Encoded(_) => Ok(None),
            Unit::Packed { source, first, .. } => {
                let number = first.checked_add(cursor.block).ok_or(Declined)?;
                require(number < self.sources.get(*source).ok_or(Declined)?.blocks)?;
                Ok(Some((*source, number)))
            }
        }
    }

    /// Returns a data block of a source. Its place is one in the source's `content`.
    fn place(&self, source: usize, block: usize) -> Outcome<Place> {
        let each = &self.sources[source];
        let number = |column: usize| position(each.numbers[column * each.blocks + block]);
        let offset = each.numbers[OFFSET * each.blocks + block];
        let offset = position(offset.checked_sub(each.base).ok_or(Declined)?)?;
        let handle = Handle { offset, size: number(SIZE)? };
        Ok(Place { handle, raw_size: number(RAW_SIZE)?, count: number(COUNT)? })
    }

    /// Copies the next data block, and returns true, if it has exactly the next `count` records.
    fn copy(&mut self, cursor: &mut Cursor, count: usize) -> Outcome<bool> {
        self.skip_empty(cursor)?;
        let Some((source, number)) = self.source(cursor)? else { return Ok(false) };
        let place = self.place(source, number)?;
        if cursor.row > 0 || place.count != count {
            return Ok(false);
        }
        let each = &self.sources[source];
        checked(each.content, place.handle)?;
        let start = self.out.len();
        let stop = place.handle.offset + place.handle.size + TRAILER_BYTES;
        self.out.extend_from_slice(&each.content[place.handle.offset..stop]);
        let mut numbers = [0; COLUMNS];
        for (column, value) in numbers.iter_mut().enumerate() {
            *value = each.numbers[column * each.blocks + number];
        }
        numbers[OFFSET] = start as i64;
        let bounds = &self.keys[source];
        let (first, last) = (bounds.key(each, number), bounds.key(each, each.blocks + number));
        self.rows.add(numbers, first, last)?;
        cursor.block += 1;
        Ok(true)
    }

    /// Encodes the next `count` records as one data block.
    fn encode(&mut self, cursor: &mut Cursor, count: usize, block: &mut NewBlock) -> Outcome<()> {
        let mut left = count;
        while left > 0 {
            self.skip_empty(cursor)?;
            left -= match self.source(cursor)? {
                None => self.encode_entries(cursor, left, block)?,
                Some((source, number)) => self.encode_part(cursor, source, number, left, block)?,
            };
        }
        Ok(())
    }

    /// Appends entries of an encoded unit; returns how many.
    fn encode_entries(
        &self,
        cursor: &mut Cursor,
        left: usize,
        block: &mut NewBlock,
    ) -> Outcome<usize> {
        let Some(Unit::Encoded(items)) = self.units.get(cursor.unit) else {
            return Err(Declined);
        };
        let stop = items.len().min(cursor.row + left);
        let mut place = block.body.len();
        let mut last: &[u8] = &[];
        for row in cursor.row..stop {
            let bytes = items.get(row);
            let entry = Entry::parse(bytes)?;
            if row > cursor.row {
                require(last < entry.key)?;
            } else if block.numbers[COUNT] > 0 {
                require(block.last_key.as_slice() < entry.key)?;
            } else {
                block.first_key.clear();
                block.first_key.extend_from_slice(entry.key);
            }
            block.count(place, &entry)?;
            place += bytes.len();
            last = entry.key;
        }
        block.body.extend_from_slice(items.run(cursor.row, stop));
        block.last_key.clear();
        block.last_key.extend_from_slice(last);
        let count = stop - cursor.row;
        cursor.row = stop;
        Ok(count)
    }

    /// Appends records of a data block that is not copied as it is; returns how many.
    fn encode_part(
        &mut self,
        cursor: &mut Cursor,
        source: usize,
        number: usize,
        left: usize,
        block: &mut NewBlock,
    ) -> Outcome<usize> {
        let place = self.place(source, number)?;
        let opened = OpenBlock::open(self.sources[source].content, place, &mut self.scratch)?;
        // The ids of the data block detect one in the place of another.
        let begin = (self.done + block.numbers[COUNT] as usize).checked_sub(cursor.row);
        let begin = begin.ok_or(Declined)?;
        let last = Entry::parse(opened.entry(place.count - 1)?)?;
        let last_id = self.ids.get(begin + place.count - 1).ok_or(Declined)?;
        require(last.id() == last_id)?;
        if cursor.row == 0 {
            require(Entry::parse(opened.entry(0)?)?.holds_its_id()? && last.holds_its_id()?)?;
        }
        let stop = place.count.min(cursor.row + left);
        for row in cursor.row..stop {
            let bytes = opened.entry(row)?;
            let entry = Entry::parse(bytes)?;
            if block.numbers[COUNT] > 0 {
                require(block.last_key.as_slice() < entry.key)?;
            } else {
                block.first_key.clear();
                block.first_key.extend_from_slice(entry.key);
            }
            block.count(block.body.len(), &entry)?;
            block.body.extend_from_slice(bytes);
            block.last_key.clear();
            block.last_key.extend_from_slice(entry.key);
        }
        let count = stop - cursor.row;
        cursor.row = stop;
        if stop == place.count {
            *cursor = Cursor { block: cursor.block + 1, row: 0, ..*cursor };
        }
        Ok(count)
    }

    /// Appends everything after the data blocks.
    fn finish(mut self, fixed: &[(Vec<u8>, Vec<u8>)]) -> Outcome<NewTable> {
        let data_bytes = self.out.len();
        let blocks = self.rows.numbers.iter().enumerate().map(|(row, numbers)| {
            let place = Handle { offset: numbers[OFFSET] as usize, size: numbers[SIZE] as usize };
            (self.rows.last_key(row), place)
        });
        let index = self.packer.add(&mut self.out, &index_content(blocks)?, true)?;
        let directory = self.put_directory();
        let key_bytes = self.rows.sum(KEY_BYTES);
        let value_bytes = self.rows.sum(VALUE_BYTES);
        let suffixes = (KEY_SUFFIX.len() * self.ids.len()) as u64;
        let mut properties = fixed.to_vec();
        for (name, number) in [
            ("rocksdb.data.size", data_bytes as u64),
            ("rocksdb.index.size", index.size as u64),
            ("rocksdb.num.data.blocks", self.rows.numbers.len() as u64),
            ("rocksdb.num.entries", self.ids.len() as u64),
            ("rocksdb.raw.key.size", key_bytes as u64 + suffixes),
            ("rocksdb.raw.value.size", value_bytes as u64),
        ] {
            let mut value = Vec::new();
            put_varint(&mut value, number);
            properties.push((name.into(), value));
        }
        properties.sort();
        let mut block = SmallBlock::default();
        for (name, value) in &properties {
            block.add(&[name], value)?;
        }
        let properties = self.packer.add(&mut self.out, &block.ended(), false)?;
        let (mut meta_index, mut handle) = (SmallBlock::default(), Vec::new());
        for (name, place) in [(PROPERTIES, properties), (DIRECTORY, directory)] {
            handle.clear();
            place.put(&mut handle);
            meta_index.add(&[name], &handle)?;
        }
        let meta_index = self.packer.add(&mut self.out, &meta_index.ended(), false)?;
        put_footer(&mut self.out, meta_index, index);
        let tombstones = self.rows.sum(TOMBSTONES);
        Ok(NewTable { file: self.out, size: key_bytes + value_bytes, tombstones })
    }

    fn put_directory(&mut self) -> Handle {
        let start = self.out.len();
        self.out.extend_from_slice(&(self.ids.len() as u64).to_le_bytes());
        self.out.extend_from_slice(&(self.rows.numbers.len() as u64).to_le_bytes());
        for column in 0..COLUMNS {
            for row in &self.rows.numbers {
                self.out.extend_from_slice(&row[column].to_le_bytes());
            }
        }
        self.out.extend_from_slice(self.ids.as_flattened());
        self.out.extend_from_slice(&self.rows.first_keys);
        self.out.extend_from_slice(&self.rows.last_keys);
        end_plain(&mut self.out, start)
    }
}
