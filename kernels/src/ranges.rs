//! New ranges of a task, written as soon as they are complete.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::rc::Rc;

use crate::bytes::Items;
use crate::bytes::{Declined, NewItems, Outcome, position, require};
use crate::entry::Entry;
use crate::hashing::{Id, sha256};
use crate::tables::{Interval, Leaf, Pool, Side, Table};
use crate::walks::is_range_end;
use crate::write::{Source, Unit, Writer};

/// The most records of a range, as a multiple of their average number.
const CAP_FACTOR: usize = 4;

/// A complete range. `file` is its bytes, unless they are in a file.
pub struct Written {
    pub piece: usize,
    pub id: Id,
    pub min_key: Vec<u8>,
    pub max_key: Vec<u8>,
    pub count: usize,
    pub size: i64,
    pub tombstones: i64,
    pub is_closed: bool,
    pub file: Vec<u8>,
}

/// How ranges are written. `stem` starts the paths of their files; without it they stay in memory.
pub struct Format<'a> {
    pub range_records: u64,
    pub compress: bool,
    pub properties: &'a [(Vec<u8>, Vec<u8>)],
    pub stem: Option<&'a str>,
}

impl Format<'_> {
    /// Returns the path of the file of the range with a number.
    pub fn path(&self, number: usize) -> Option<PathBuf> {
        self.stem.map(|stem| PathBuf::from(format!("{stem}-{number}")))
    }
}

/// Consecutive records of the range under construction.
enum Part {
    Encoded { first: usize, stop: usize },
    Packed { source: usize, first: usize, stop: usize },
}

/// What becomes of the records of a task, in key order.
pub trait Output<'a> {
    /// Adds the remaining rows of a side's data block.
    fn push_block(&mut self, side: &mut Side<'a>, pool: &mut Pool) -> Outcome<()>;

    /// Adds a record.
    fn push(&mut self, entry: &[u8], id: &Id, pool: &mut Pool) -> Outcome<()>;

    /// Adds the rows of an open data block with some ids.
    fn push_rows(
        &mut self,
        leaf: &Leaf,
        ids: &[Id],
        start: usize,
        stop: usize,
        pool: &mut Pool,
    ) -> Outcome<()> {
        for row in start..stop {
            self.push(leaf.bytes(row)?, ids.get(row).ok_or(Declined)?, pool)?;
        }
        Ok(())
    }
}

/// The records of a task, split into pieces and ranges.
pub struct NewRanges<'a> {
    format: &'a Format<'a>,
    pieces: &'a [Interval<'a>],
    piece: usize,
    cap: usize,
    ids: Vec<Id>,
    parts: Vec<Part>,
    sources: Vec<Rc<Table<'a>>>,
    encoded: NewItems,
    out: Vec<u8>,
    pub written: Vec<Written>,
}

impl<'a> Output<'a> for NewRanges<'a> {
    /// Adds the remaining rows of a side's data block, which stays closed if possible.
    fn push_block(&mut self, side: &mut Side<'a>, pool: &mut Pool) -> Outcome<()> {
        let (table, block) = side.place()?;
        self.reach(table.first_key(block), pool)?;
        if self.parts.is_empty() {
            side.open()?; // Its first key becomes that of a range.
        }
        let (table, block) = side.place()?;
        let ids = side.ids()?;
        let (last, others) = ids.split_last().ok_or(Declined)?;
        let piece = self.pieces.get(self.piece);
        let fits = side.is_whole()?
            && piece.is_some_and(|piece| {
                piece.start <= table.first_key(block) && !piece.ends_by(table.last_key(block))
            })
            && self.ids.len() + ids.len() <= self.cap
            && !others.iter().any(|id| is_range_end(id, self.format.range_records));
        if !fits {
            side.open()?;
            let (table, block) = side.place()?;
            return self.push_rows(&side.leaf, table.ids(block), side.row, side.stop, pool);
        }
        if !self.sources.last().is_some_and(|source| Rc::ptr_eq(source, table)) {
            self.sources.push(table.clone());
        }
        let source = self.sources.len() - 1;
        match self.parts.last_mut() {
            Some(Part::Packed { source: at, stop, .. }) if *at == source && *stop == block => {
                *stop += 1;
            }
            _ => self.parts.push(Part::Packed { source, first: block, stop: block + 1 }),
        }
        self.ids.extend_from_slice(ids);
        self.close_after(last, pool)
    }

    /// Adds a record, unless it is between the pieces.
    fn push(&mut self, entry: &[u8], id: &Id, pool: &mut Pool) -> Outcome<()> {
        let key = Entry::parse(entry)?.key;
        self.reach(key, pool)?;
        if self.pieces.get(self.piece).is_none_or(|piece| piece.start > key) {
            return Ok(());
        }
        self.encoded.push(entry)?;
        let rows = self.encoded.bounds.len() - 1;
        match self.parts.last_mut() {
            Some(Part::Encoded { stop, .. }) => *stop = rows,
            _ => self.parts.push(Part::Encoded { first: rows - 1, stop: rows }),
        }
        self.ids.push(*id);
        self.close_after(id, pool)
    }
}

impl<'a> NewRanges<'a> {
    pub fn new(format: &'a Format<'a>, pieces: &'a [Interval<'a>]) -> Outcome<Self> {
        require(format.range_records > 0 && format.range_records <= u64::from(u32::MAX))?;
        let cap = usize::try_from(format.range_records).map_err(|_| Declined)?;
        Ok(Self {
            format,
            pieces,
            piece: 0,
            cap: cap.checked_mul(CAP_FACTOR).ok_or(Declined)?,
            ids: Vec::new(),
            parts: Vec::new(),
            sources: Vec::new(),
            encoded: NewItems::with_capacity(0, 0),
            out: Vec::new(),
            written: Vec::new(),
        })
    }

    /// Ends the pieces before a key.
    fn reach(&mut self, key: &[u8], pool: &mut Pool) -> Outcome<()> {
        while self.pieces.get(self.piece).is_some_and(|piece| piece.ends_by(key)) {
            self.close(false, pool)?;
            self.piece += 1;
        }
        Ok(())
    }

    /// Ends the last range.
    pub fn finish(mut self, pool: &mut Pool) -> Outcome<Vec<Written>> {
        self.close(false, pool)?;
        Ok(self.written)
    }

    fn close_after(&mut self, id: &Id, pool: &mut Pool) -> Outcome<()> {
        if self.ids.len() >= self.cap || is_range_end(id, self.format.range_records) {
            self.close(true, pool)?;
        }
        Ok(())
    }

    /// Writes the range under construction, if it has records.
    fn close(&mut self, is_closed: bool, pool: &mut Pool) -> Outcome<()> {
        if self.ids.is_empty() {
            return Ok(());
        }
        let items = self.encoded.items()?;
        let mut sources = Vec::with_capacity(self.sources.len());
        for table in &self.sources {
            let directory = &table.directory;
            let (numbers, blocks) = (&directory.numbers[..], directory.blocks);
            let content = table.bytes()?;
            sources.push(Source { content, base: 0, numbers, blocks, keys: &directory.keys });
        }
        let mut units = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            units.push(match *part {
                Part::Encoded { first, stop } => {
                    let bounds = self.encoded.bounds.get(first..=stop).ok_or(Declined)?;
                    Unit::Encoded(Items::new(&self.encoded.data, bounds)?)
                }
                Part::Packed { source, first, stop } => Unit::Packed { source, first, stop },
            });
        }
        let key = |part: Option<&Part>, is_last: bool| -> Outcome<Vec<u8>> {
            Ok(match *part.ok_or(Declined)? {
                Part::Encoded { first, stop } => {
                    let row = if is_last { stop - 1 } else { first };
                    Entry::parse(items.get(row))?.key.to_vec()
                }
                Part::Packed { source, first, stop } => {
                    let table = &self.sources[source];
                    if is_last { table.last_key(stop - 1) } else { table.first_key(first) }.to_vec()
                }
            })
        };
        let (min_key, max_key) = (key(self.parts.first(), false)?, key(self.parts.last(), true)?);
        require(self.written.last().is_none_or(|before| before.max_key < min_key))?;
        let out = std::mem::take(&mut self.out);
        let writer = Writer::new(&self.ids, &sources, &units, self.format.compress, out)?;
        let mut table = writer.run(self.format.properties)?;
        if let Some(path) = self.format.path(self.written.len()) {
            let file = File::options().write(true).create_new(true).open(path);
            file.and_then(|mut file| file.write_all(&table.file)).map_err(|_| Declined)?;
            self.out = std::mem::take(&mut table.file);
        }
        self.written.push(Written {
            piece: self.piece,
            id: sha256(self.ids.as_flattened()),
            min_key,
            max_key,
            count: self.ids.len(),
            size: table.size,
            tombstones: table.tombstones,
            is_closed,
            file: table.file,
        });
        position(table.size)?;
        self.ids.clear();
        self.parts.clear();
        self.encoded.data.clear();
        self.encoded.bounds.truncate(1);
        for table in self.sources.drain(..).filter_map(Rc::into_inner) {
            table.recycle(pool);
        }
        Ok(())
    }
}
