//! Ranges as a task opens them: their directories at once, their data blocks on demand.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::rc::Rc;

use crate::bytes::{Declined, Outcome, arrays, part, position, require};
use crate::entry::{Entry, KEY_SUFFIX};
use crate::format::{Handle, UNCOMPRESSED, checked, content};
use crate::hashing::{Id, sha256};
use crate::read::{
    COUNT, Directory, Ending, FIRST_KEY_BYTES, LAST_KEY_BYTES, OFFSET, Place, RAW_SIZE, SIZE,
    entry_bytes, read_ending,
};

/// The bytes at the end of a file that are read first.
const TAIL_BYTES: usize = 4096;

/// The file of a range.
pub enum Input<'a> {
    Bytes(&'a [u8]),
    Path(PathBuf),
}

/// A range to open. `id` is what its record ids must hash to, and `keys` its first and its last key,
/// if anything.
pub struct Range<'a> {
    pub input: Input<'a>,
    pub id: Option<Id>,
    pub keys: Option<[&'a [u8]; 2]>,
}

/// Keys from `start` up to and without `stop`, if there is one.
#[derive(Clone, Copy)]
pub struct Interval<'a> {
    pub start: &'a [u8],
    pub stop: Option<&'a [u8]>,
}

impl Interval<'_> {
    pub fn ends_by(&self, key: &[u8]) -> bool {
        self.stop.is_some_and(|stop| stop <= key)
    }
}

enum Content<'a> {
    Bytes(&'a [u8]),
    Whole(Vec<u8>),
    File(File),
}

/// The buffers of passed ranges. The next ones reuse their memory.
pub type Pool = Vec<Vec<u8>>;

/// An open range.
pub struct Table<'a> {
    content: Content<'a>,
    pub directory: Directory,
    /// The bounds of the first keys, then of the last keys.
    keys: Vec<usize>,
    /// The position of each data block's first record, and the number of records.
    starts: Vec<usize>,
}

impl<'a> Table<'a> {
    /// Opens a range. `whole` ones are read at once, because all of their data is needed.
    fn open(range: &Range<'a>, whole: bool, pool: &mut Pool) -> Outcome<Self> {
        let (content, directory) = match &range.input {
            Input::Bytes(bytes) => (Content::Bytes(bytes), ending(bytes)?),
            Input::Path(path) => {
                // Without O_NONBLOCK, the open of a FIFO waits for a writer.
                let mut options = File::options();
                options.read(true).custom_flags(libc::O_NONBLOCK);
                let mut file = options.open(path).map_err(|_| Declined)?;
                let size = file.metadata().map_err(|_| Declined)?;
                require(size.is_file())?;
                let size = usize::try_from(size.len()).map_err(|_| Declined)?;
                if whole {
                    let mut bytes = pool.pop().unwrap_or_default();
                    bytes.clear();
                    bytes.try_reserve(size + 1).map_err(|_| Declined)?;
                    file.read_to_end(&mut bytes).map_err(|_| Declined)?;
                    let directory = ending(&bytes)?;
                    (Content::Whole(bytes), directory)
                } else {
                    let directory = distant_ending(&file, size)?;
                    (Content::File(file), directory)
                }
            }
        };
        let blocks = directory.blocks;
        let sums = |columns: &[i64]| {
            let mut ends = Vec::with_capacity(columns.len() + 1);
            let mut end = 0usize;
            ends.push(end);
            for number in columns {
                end = end.checked_add(position(*number)?).ok_or(Declined)?;
                ends.push(end);
            }
            Ok(ends)
        };
        let numbers = &directory.numbers;
        let keys = sums(&numbers[FIRST_KEY_BYTES * blocks..(LAST_KEY_BYTES + 1) * blocks])?;
        let starts = sums(&numbers[COUNT * blocks..(COUNT + 1) * blocks])?;
        let ids = &directory.ids;
        require(range.id.is_none_or(|id| id == sha256(ids.as_flattened())))?;
        require(keys.last() == Some(&directory.keys.len()) && starts.last() == Some(&ids.len()))?;
        let opened = Self { content, directory, keys, starts };
        let ends = [opened.first_key(0), opened.last_key(blocks - 1)];
        require(range.keys.is_none_or(|keys| keys == ends))?;
        Ok(opened)
    }

    pub fn blocks(&self) -> usize {
        self.directory.blocks
    }

    pub fn first_key(&self, block: usize) -> &[u8] {
        &self.directory.keys[self.keys[block]..self.keys[block + 1]]
    }

    pub fn last_key(&self, block: usize) -> &[u8] {
        self.first_key(self.blocks() + block)
    }

    /// Returns the last key before a data block, or the range's first key.
    fn bound(&self, block: usize) -> &[u8] {
        block.checked_sub(1).map_or(self.first_key(0), |before| self.last_key(before))
    }

    pub fn ids(&self, block: usize) -> &[Id] {
        &self.directory.ids[self.starts[block]..self.starts[block + 1]]
    }

    /// Returns the bytes of a range that is in memory.
    pub fn bytes(&self) -> Outcome<&[u8]> {
        match &self.content {
            Content::Bytes(bytes) => Ok(bytes),
            Content::Whole(bytes) => Ok(bytes),
            Content::File(_) => Err(Declined),
        }
    }

    fn place(&self, block: usize) -> Outcome<Place> {
        let number =
            |column: usize| position(self.directory.numbers[column * self.blocks() + block]);
        let handle = Handle { offset: number(OFFSET)?, size: number(SIZE)? };
        Ok(Place { handle, raw_size: number(RAW_SIZE)?, count: number(COUNT)? })
    }

    /// Keeps the buffer of a range for another one.
    pub fn recycle(self, pool: &mut Pool) {
        if let Content::Whole(bytes) = self.content {
            pool.push(bytes);
        }
    }
}

fn ending(bytes: &[u8]) -> Outcome<Directory> {
    match read_ending(bytes, bytes.len())? {
        Ending::Directory(directory) => Ok(directory),
        Ending::NeededFrom(_) => Err(Declined),
    }
}

/// Reads the directory of a file without its data blocks.
fn distant_ending(file: &File, size: usize) -> Outcome<Directory> {
    let mut start = size.saturating_sub(TAIL_BYTES);
    let mut tail = Vec::new();
    for _ in 0..3 {
        tail.resize(size - start, 0);
        file.read_exact_at(&mut tail, start as u64).map_err(|_| Declined)?;
        match read_ending(&tail, size)? {
            Ending::Directory(directory) => return Ok(directory),
            Ending::NeededFrom(position) => {
                require(position < start)?;
                start = position;
            }
        }
    }
    Err(Declined)
}

/// The verified records of an open data block.
#[derive(Default)]
pub struct Leaf {
    file: Vec<u8>,
    raw: Vec<u8>,
    end: usize,
    /// The start of each entry, and the bounds of its key.
    places: Vec<[usize; 3]>,
}

impl Leaf {
    /// Opens a data block, and declines it unless all its records have the ids of the directory.
    fn open(&mut self, table: &Table, block: usize) -> Outcome<()> {
        let Place { handle, raw_size, count } = table.place(block)?;
        let size = handle.end()? - handle.offset;
        let inside = Handle { offset: 0, size: handle.size };
        let file = match &table.content {
            Content::File(file) => {
                self.file.resize(size, 0);
                let at = handle.offset as u64;
                file.read_exact_at(&mut self.file, at).map_err(|_| Declined)?;
                self.file.as_slice()
            }
            _ => part(table.bytes()?, handle.offset, handle.end()?)?,
        };
        let (body, kind) = checked(file, inside)?;
        if kind == UNCOMPRESSED {
            require(body.len() == raw_size)?;
            self.raw.clear();
            self.raw.extend_from_slice(body);
        } else {
            content((body, kind), raw_size, &mut self.raw)?;
        }
        self.end = entry_bytes(self.raw.len(), count)?;
        let (entries, places) = self.raw.split_at(self.end);
        let (recorded, starts) = arrays(places).0.split_last().ok_or(Declined)?;
        let place =
            |row| starts.get(row).map_or(self.end, |start| u32::from_le_bytes(*start) as usize);
        let ids = table.ids(block);
        require(u32::from_le_bytes(*recorded) as usize == count && count > 0 && place(0) == 0)?;
        require(ids.len() == count && starts.len() == count)?;
        let (mut start, mut previous): (_, &[u8]) = (0, &[]);
        self.places.clear();
        for (row, id) in ids.iter().enumerate() {
            let stop = place(row + 1);
            let entry = Entry::parse(part(entries, start, stop)?)?;
            require(entry.id() == id && previous < entry.key)?;
            previous = entry.key;
            let key = start + entry.head;
            self.places.push([start, key, key + previous.len()]);
            start = stop;
        }
        for row in [0, count - 1] {
            require(self.entry(row)?.holds_its_id()?)?;
        }
        require(self.entry(0)?.key == table.first_key(block))?;
        require(self.entry(count - 1)?.key == table.last_key(block))
    }

    /// Returns the start of an entry, and the bounds of its key and of its value.
    fn place(&self, row: usize) -> Outcome<(usize, [usize; 4])> {
        let [start, key, stop] = *self.places.get(row).ok_or(Declined)?;
        let end = self.places.get(row + 1).map_or(self.end, |next| next[0]);
        Ok((start, [key, stop, stop + KEY_SUFFIX.len(), end]))
    }

    /// Returns the bytes of an entry.
    #[inline]
    pub fn bytes(&self, row: usize) -> Outcome<&[u8]> {
        let (start, [.., end]) = self.place(row)?;
        part(&self.raw, start, end)
    }

    #[inline]
    pub fn entry(&self, row: usize) -> Outcome<Entry<'_>> {
        let (start, [key, stop, value, end]) = self.place(row)?;
        let (key_bytes, value) = (part(&self.raw, key, stop)?, part(&self.raw, value, end)?);
        Ok(Entry { key: key_bytes, value, head: key - start })
    }

    /// Returns the first row, from `low` up to `high`, at or above a key.
    pub fn lower_bound(&self, key: &[u8], mut low: usize, mut high: usize) -> Outcome<usize> {
        while low < high {
            let middle = low + (high - low) / 2;
            if self.entry(middle)?.key < key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }
}

/// The place of a side in its ranges, within ascending intervals of keys.
pub struct Side<'a> {
    ranges: std::slice::Iter<'a, Range<'a>>,
    within: &'a [Interval<'a>],
    whole: bool,
    table: Option<Rc<Table<'a>>>,
    block: usize,
    is_open: bool,
    pub leaf: Leaf,
    /// The next row of the data block, and the end of its rows in the first interval.
    pub row: usize,
    pub stop: usize,
}

impl<'a> Side<'a> {
    /// Returns a side before its first data block. A `whole` one reads all data of its ranges.
    pub fn new(ranges: &'a [Range<'a>], within: &'a [Interval<'a>], whole: bool) -> Self {
        Self {
            ranges: ranges.iter(),
            within,
            whole,
            table: None,
            block: 0,
            is_open: false,
            leaf: Leaf::default(),
            row: 0,
            stop: 0,
        }
    }

    /// Moves to the next rows of a data block in an interval; returns false at the end.
    pub fn advance(&mut self, pool: &mut Pool) -> Outcome<bool> {
        self.row = self.stop;
        while let Some(interval) = self.within.first().copied() {
            let Some(table) = self.table.clone().filter(|table| self.block < table.blocks()) else {
                if let Some(table) = self.table.take().and_then(Rc::into_inner) {
                    table.recycle(pool);
                }
                let Some(range) = self.ranges.next() else { break };
                self.table = Some(Rc::new(Table::open(range, self.whole, pool)?));
                self.start_block(0);
                continue;
            };
            let (bound, last) = (table.bound(self.block), table.last_key(self.block));
            let count = table.ids(self.block).len();
            if self.row == count || last < interval.start {
                self.start_block(self.block + 1);
                continue;
            }
            if interval.ends_by(bound) {
                self.within = &self.within[1..];
                continue;
            }
            if bound < interval.start {
                self.open()?;
                self.row = self.leaf.lower_bound(interval.start, self.row, count)?;
            }
            self.stop = count;
            if let Some(stop) = interval.stop.filter(|stop| *stop <= last) {
                self.open()?;
                self.stop = self.leaf.lower_bound(stop, self.row, count)?;
                self.within = &self.within[1..];
            }
            if self.row < self.stop {
                return Ok(true);
            }
        }
        (self.row, self.stop) = (0, 0);
        Ok(false)
    }

    fn start_block(&mut self, block: usize) {
        self.block = block;
        self.is_open = false;
        (self.row, self.stop) = (0, 0);
    }

    /// Moves to the next row, if this one is the last of its data block; false at the end.
    pub fn settle(&mut self, pool: &mut Pool) -> Outcome<bool> {
        if self.row < self.stop { Ok(true) } else { self.advance(pool) }
    }

    pub fn open(&mut self) -> Outcome<()> {
        if !self.is_open {
            let table = self.table.as_ref().ok_or(Declined)?;
            self.leaf.open(table, self.block)?;
            self.is_open = true;
        }
        Ok(())
    }

    /// Returns the table of the data block, and its number.
    pub fn place(&self) -> Outcome<(&Rc<Table<'a>>, usize)> {
        Ok((self.table.as_ref().ok_or(Declined)?, self.block))
    }

    /// Returns the ids of the remaining rows.
    pub fn ids(&self) -> Outcome<&[Id]> {
        let (table, block) = self.place()?;
        table.ids(block).get(self.row..self.stop).ok_or(Declined)
    }

    pub fn id(&self, row: usize) -> Outcome<&Id> {
        let (table, block) = self.place()?;
        table.ids(block).get(row).ok_or(Declined)
    }

    /// Returns the key of the last row.
    pub fn last_key(&self) -> Outcome<&[u8]> {
        let (table, block) = self.place()?;
        if self.stop == table.ids(block).len() {
            return Ok(table.last_key(block));
        }
        Ok(self.leaf.entry(self.stop.checked_sub(1).ok_or(Declined)?)?.key)
    }

    /// Returns whether no row of the data block is outside of the interval, or passed.
    pub fn is_whole(&self) -> Outcome<bool> {
        let (table, block) = self.place()?;
        Ok(self.row == 0 && self.stop == table.ids(block).len())
    }

    /// Returns the record at the current row.
    pub fn entry(&mut self) -> Outcome<Entry<'_>> {
        self.open()?;
        self.leaf.entry(self.row)
    }
}
