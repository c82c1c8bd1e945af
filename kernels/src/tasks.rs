//! Whole tasks: staged layers applied to ranges, and three-way merges of ranges.
//!
//! A task reads its ranges in key order, one data block of each side at a time. Data blocks without
//! a change are copied as they are.

use std::cmp::Ordering;

use crate::bytes::{Declined, Items, NewItems, Outcome, require};
use crate::entry::Entry;
use crate::hashing::Id;
use crate::listing::Listing;
use crate::ranges::{Format, NewRanges, Output, Written};
use crate::tables::{Interval, Pool, Range, Side};
use crate::walks::NO_ROW;

/// The most objects for which a listing has room from the start.
const MOST_EXPECTED: usize = 1 << 20;

/// The keys of a task: its pieces, and the selected ones, all in ascending order.
pub struct Scope<'a> {
    pieces: Vec<Interval<'a>>,
    /// The interval from the first piece's start to the last one's end.
    hull: [Interval<'a>; 1],
    selected: Vec<Interval<'a>>,
}

impl<'a> Scope<'a> {
    pub fn new(pieces: Vec<Interval<'a>>, selected: Vec<Interval<'a>>) -> Outcome<Self> {
        let (first, last) = (pieces.first().ok_or(Declined)?, pieces.last().ok_or(Declined)?);
        let hull = [Interval { start: first.start, stop: last.stop }];
        Ok(Self { pieces, hull, selected })
    }
}

/// The changed keys of a task; None for more than `most`.
struct ChangedKeys {
    keys: Option<NewItems>,
    most: usize,
}

impl ChangedKeys {
    fn new(most: usize) -> Self {
        Self { keys: Some(NewItems::with_capacity(0, 0)), most }
    }

    fn add(&mut self, key: &[u8]) -> Outcome<()> {
        if let Some(keys) = &mut self.keys {
            keys.push(key)?;
            if keys.bounds.len() - 1 > self.most {
                self.keys = None;
            }
        }
        Ok(())
    }
}

/// A change of a data block: the record at `row` goes, or stays after an added one, or both.
struct Edit {
    row: usize,
    drops: bool,
    added: Option<Id>,
}

/// The changes of the current data block. `added` has the entries of added records, in order.
struct Edits {
    edits: Vec<Edit>,
    added: NewItems,
}

impl Edits {
    fn new() -> Self {
        Self { edits: Vec::new(), added: NewItems::with_capacity(0, 0) }
    }

    fn drop(&mut self, row: usize) {
        self.edits.push(Edit { row, drops: true, added: None });
    }

    fn put(&mut self, row: usize, drops: bool, entry: &[u8], id: &Id) -> Outcome<()> {
        self.edits.push(Edit { row, drops, added: Some(*id) });
        self.added.push(entry)
    }

    /// Adds the remaining rows of a data block with the changes, which are forgotten.
    fn emit<'a>(
        &mut self,
        side: &mut Side<'a>,
        out: &mut impl Output<'a>,
        pool: &mut Pool,
    ) -> Outcome<()> {
        if self.edits.is_empty() {
            return out.push_block(side, pool);
        }
        side.open()?;
        let (table, block) = side.place()?;
        let (ids, added) = (table.ids(block), self.added.items()?);
        let (mut row, mut next) = (side.row, 0);
        for edit in &self.edits {
            require(row <= edit.row)?;
            out.push_rows(&side.leaf, ids, row, edit.row, pool)?;
            if let Some(id) = &edit.added {
                out.push(added.get(next), id, pool)?;
                next += 1;
            }
            row = edit.row + usize::from(edit.drops);
        }
        out.push_rows(&side.leaf, ids, row, side.stop, pool)?;
        self.clear();
        Ok(())
    }

    /// Adds the records after the last data block.
    fn emit_tail<'a>(&mut self, out: &mut impl Output<'a>, pool: &mut Pool) -> Outcome<()> {
        let added = self.added.items()?;
        let ids = self.edits.iter().filter_map(|edit| edit.added.as_ref());
        for (entry, id) in added.iter().zip(ids) {
            out.push(entry, id, pool)?;
        }
        self.clear();
        Ok(())
    }

    fn clear(&mut self) {
        self.edits.clear();
        self.added.data.clear();
        self.added.bounds.truncate(1);
    }
}

/// The changes of an apply. `keys` are the changed keys, or None for too many.
pub struct Applied {
    pub keys: Option<NewItems>,
    pub added: usize,
    pub removed: usize,
    pub changed: usize,
}

/// The newest staged record of each key, from layers of which the first is the newest.
struct Staged<'a> {
    layers: Vec<Side<'a>>,
    /// The layer of the current record.
    at: usize,
}

impl<'a> Staged<'a> {
    /// Moves to the next key at or after the rows of the layers; returns false at the end.
    fn settle(&mut self, pool: &mut Pool) -> Outcome<bool> {
        let mut lowest: Option<usize> = None;
        for number in 0..self.layers.len() {
            if !self.layers[number].settle(pool)? {
                continue;
            }
            self.layers[number].open()?;
            let is_lower = match lowest {
                None => true,
                Some(other) => {
                    let other = &self.layers[other];
                    let key = other.leaf.entry(other.row)?.key;
                    let layer = &self.layers[number];
                    layer.leaf.entry(layer.row)?.key < key
                }
            };
            if is_lower {
                lowest = Some(number);
            }
        }
        self.at = lowest.unwrap_or(0);
        Ok(lowest.is_some())
    }

    fn side(&mut self) -> &mut Side<'a> {
        &mut self.layers[self.at]
    }

    /// Passes the current key in all layers.
    fn pass(&mut self) -> Outcome<()> {
        for number in self.at + 1..self.layers.len() {
            let (newest, others) = self.layers.split_at_mut(number);
            let newest = &newest[self.at];
            let key = newest.leaf.entry(newest.row)?.key;
            if others[0].row < others[0].stop && others[0].leaf.entry(others[0].row)?.key == key {
                others[0].row += 1;
            }
        }
        self.layers[self.at].row += 1;
        Ok(())
    }
}

/// Applies the selected keys of staged layers, newest first, to the ranges of a base.
pub fn apply<'a>(
    base: &'a [Range<'a>],
    layers: &'a [Vec<Range<'a>>],
    scope: &'a Scope<'a>,
    format: &'a Format<'a>,
    most_keys: usize,
) -> Outcome<(Vec<Written>, Applied)> {
    let mut pool = Pool::new();
    let mut out = NewRanges::new(format, &scope.pieces)?;
    let applied = overlay(base, layers, scope, &mut out, most_keys, &mut pool)?;
    Ok((out.finish(&mut pool)?, applied))
}

/// Lists the objects of a base with staged layers. About `count` in `bytes` are expected.
pub fn list<'a>(
    base: &'a [Range<'a>],
    layers: &'a [Vec<Range<'a>>],
    scope: &'a Scope<'a>,
    prefix: &'a [u8],
    (count, bytes): (usize, usize),
) -> Outcome<Listing<'a>> {
    let mut out = Listing::new(prefix, count.min(MOST_EXPECTED), bytes.min(64 * MOST_EXPECTED));
    overlay(base, layers, scope, &mut out, 0, &mut Pool::new())?;
    out.checked()
}

/// Adds the records of a base with the selected keys of staged layers, newest first.
fn overlay<'a>(
    base: &'a [Range<'a>],
    layers: &'a [Vec<Range<'a>>],
    scope: &'a Scope<'a>,
    out: &mut impl Output<'a>,
    most_keys: usize,
    pool: &mut Pool,
) -> Outcome<Applied> {
    let mut base = Side::new(base, &scope.hull, true);
    let layers = layers.iter().map(|ranges| Side::new(ranges, &scope.selected, false)).collect();
    let mut staged = Staged { layers, at: 0 };
    let mut keys = ChangedKeys::new(most_keys);
    let (mut added, mut removed, mut changed) = (0, 0, 0);
    let mut edits = Edits::new();
    let mut has_staged = staged.settle(pool)?;
    while base.advance(pool)? {
        let mut low = base.row;
        while has_staged {
            let layer = staged.side();
            let id = *layer.id(layer.row)?;
            let bytes = layer.leaf.bytes(layer.row)?;
            let entry = layer.leaf.entry(layer.row)?;
            // The rows of a data block at the end of the interval are its last ones.
            if entry.key > base.last_key()? {
                break;
            }
            base.open()?;
            low = base.leaf.lower_bound(entry.key, low, base.stop)?;
            let exists = low < base.stop && base.leaf.entry(low)?.key == entry.key;
            let lives = !entry.is_tombstone();
            if exists && !(lives && *base.id(low)? == id) {
                if lives {
                    edits.put(low, true, bytes, &id)?;
                    changed += 1;
                } else {
                    edits.drop(low);
                    removed += 1;
                }
                keys.add(entry.key)?;
            } else if !exists && lives {
                edits.put(low, false, bytes, &id)?;
                added += 1;
                keys.add(entry.key)?;
            }
            low += usize::from(exists);
            staged.pass()?;
            has_staged = staged.settle(pool)?;
        }
        edits.emit(&mut base, out, pool)?;
    }
    while has_staged {
        let layer = staged.side();
        let entry = layer.leaf.entry(layer.row)?;
        if !entry.is_tombstone() {
            out.push(layer.leaf.bytes(layer.row)?, layer.id(layer.row)?, pool)?;
            added += 1;
            keys.add(entry.key)?;
        }
        staged.pass()?;
        has_staged = staged.settle(pool)?;
    }
    Ok(Applied { keys: keys.keys, added, removed, changed })
}

/// The base of a merge, in which keys are looked up in ascending order.
struct Base<'a> {
    side: Side<'a>,
    has_rows: bool,
    /// The row of the key that was found.
    row: usize,
}

impl<'a> Base<'a> {
    /// Returns the record id of a key. One of `ids`, if it is there, is that of the key.
    fn find(&mut self, key: &[u8], ids: [Option<&Id>; 2], pool: &mut Pool) -> Outcome<Option<Id>> {
        while self.has_rows && self.side.last_key()? < key {
            self.has_rows = self.side.advance(pool)?;
        }
        if !self.has_rows {
            return Ok(None);
        }
        let here = self.side.ids()?;
        let at = here.iter().position(|id| ids.contains(&Some(id)));
        if let Some(at) = at {
            self.row = self.side.row + at;
            return Ok(Some(here[at]));
        }
        self.side.open()?;
        let (leaf, stop) = (&self.side.leaf, self.side.stop);
        self.row = leaf.lower_bound(key, self.side.row, stop)?;
        let exists = self.row < stop && leaf.entry(self.row)?.key == key;
        Ok(if exists { Some(*self.side.id(self.row)?) } else { None })
    }

    /// Returns the stored value of the key that was found.
    fn stored(&mut self) -> Outcome<Vec<u8>> {
        self.side.open()?;
        Ok(self.side.leaf.entry(self.row)?.value.to_vec())
    }
}

/// A key that both sides changed, with the stored values.
pub struct Conflict {
    pub key: Vec<u8>,
    pub base: Option<Vec<u8>>,
    pub source: Option<Vec<u8>>,
    pub dest: Option<Vec<u8>>,
}

/// What becomes of a conflict: nothing, or no record, or the next one of the decided `entries`.
pub const KEEPS_DEST: u8 = 0;
pub const REMOVES: u8 = 1;
pub const REPLACES: u8 = 2;

/// The decisions of all conflicts, in order.
pub struct Decisions<'a> {
    pub kinds: &'a [u8],
    pub entries: Items<'a>,
}

/// Flags of a key on which source and dest differ.
pub const IN_DEST: u8 = 1;
pub const IN_SOURCE: u8 = 2;
pub const FROM_SOURCE: u8 = 4;
pub const CONFLICT: u8 = 8;

/// The outcome of a merge. Nothing is written if conflicts were found without decisions.
pub struct Merged {
    pub written: Vec<Written>,
    /// The keys that change in dest; None for too many.
    pub keys: Option<NewItems>,
    /// All keys on which source and dest differ, and their flags.
    pub differing: NewItems,
    pub flags: Vec<u8>,
    pub conflicts: Vec<Conflict>,
}

/// Two sides, walked together by their record ids. Keys are compared only where ids differ.
struct Pair<'a> {
    other: Side<'a>,
    has_other: bool,
}

impl<'a> Pair<'a> {
    /// Passes the rows of a side's data block, and those of the other side before its end.
    ///
    /// Calls a function with both sides at each differing key, with a row, and with the order of
    /// the keys there: both sides have the key, or only the one with the lesser key has it.
    fn block(
        &mut self,
        side: &mut Side<'a>,
        pool: &mut Pool,
        visit: &mut impl FnMut(&Side<'a>, &Side<'a>, usize, Ordering, &mut Pool) -> Outcome<()>,
    ) -> Outcome<()> {
        let mut row = side.row;
        while row < side.stop {
            if self.has_other {
                let ids = &side.ids()?[row - side.row..];
                let same = ids.iter().zip(self.other.ids()?).take_while(|(a, b)| a == b).count();
                row += same;
                self.other.row += same;
                if same > 0 {
                    self.has_other = self.other.settle(pool)?;
                    continue;
                }
            }
            side.open()?;
            let order = if self.has_other {
                side.leaf.entry(row)?.key.cmp(self.other.entry()?.key)
            } else {
                Ordering::Less
            };
            visit(side, &self.other, row, order, pool)?;
            row += usize::from(order.is_le());
            if order.is_ge() {
                self.pass(pool)?;
            }
        }
        Ok(())
    }

    fn pass(&mut self, pool: &mut Pool) -> Outcome<()> {
        self.other.row += 1;
        self.has_other = self.other.settle(pool)?;
        Ok(())
    }
}

/// The differing records of two sides. Each key has its rows in them, or NO_ROW.
pub struct Differences {
    pub left: NewItems,
    pub right: NewItems,
    pub at_left: Vec<i64>,
    pub at_right: Vec<i64>,
}

/// Compares the ranges of two sides.
pub fn diff<'a>([left, right]: [&'a [Range<'a>]; 2], scope: &'a Scope<'a>) -> Outcome<Differences> {
    let mut pool = Pool::new();
    let [mut left, right] = [left, right].map(|ranges| Side::new(ranges, &scope.hull, false));
    let mut pair = Pair { other: right, has_other: false };
    pair.has_other = pair.other.advance(&mut pool)?;
    let none = || NewItems::with_capacity(0, 0);
    let mut found =
        Differences { left: none(), right: none(), at_left: Vec::new(), at_right: Vec::new() };
    let mut visit = |left: &Side, right: &Side, row: usize, order: Ordering, _: &mut Pool| {
        let add = |side: &Side, row, items: &mut NewItems, has: bool| {
            if !has {
                return Ok(NO_ROW);
            }
            items.push(side.leaf.bytes(row)?)?;
            Ok(items.bounds.len() as i64 - 2)
        };
        found.at_left.push(add(left, row, &mut found.left, order.is_le())?);
        found.at_right.push(add(right, right.row, &mut found.right, order.is_ge())?);
        Ok(())
    };
    while left.advance(&mut pool)? {
        pair.block(&mut left, &mut pool, &mut visit)?;
    }
    while pair.has_other {
        pair.other.open()?;
        visit(&left, &pair.other, 0, Ordering::Greater, &mut pool)?;
        pair.pass(&mut pool)?;
    }
    Ok(found)
}

struct Merge<'a, 'd> {
    base: Base<'a>,
    edits: Edits,
    keys: ChangedKeys,
    differing: NewItems,
    flags: Vec<u8>,
    conflicts: Vec<Conflict>,
    decisions: Option<&'d Decisions<'d>>,
    decided: usize,
    replaced: usize,
}

impl<'a> Merge<'a, '_> {
    /// Merges a key on which source and dest differ. `order` tells which of them have it, and `row`
    /// is its row in dest, or the next one.
    fn differ(
        &mut self,
        dest: &Side<'a>,
        source: &Side<'a>,
        row: usize,
        order: Ordering,
        pool: &mut Pool,
    ) -> Outcome<()> {
        let in_dest =
            if order.is_le() { Some((dest.leaf.entry(row)?, dest.id(row)?)) } else { None };
        let in_source = if order.is_ge() {
            Some((source.leaf.entry(source.row)?, source.id(source.row)?))
        } else {
            None
        };
        let key = in_dest.or(in_source).ok_or(Declined)?.0.key;
        let ids = [in_dest, in_source].map(|side| side.map(|(_, id)| id));
        let ancestor = self.base.find(key, ids, pool)?;
        let [is_dest, is_source] = ids.map(|id| id == ancestor.as_ref());
        let presence = if in_dest.is_some() { IN_DEST } else { 0 }
            | if in_source.is_some() { IN_SOURCE } else { 0 };
        self.differing.push(key)?;
        let is_conflict = !is_dest && !is_source;
        let takes_source = is_dest && !is_source;
        self.flags.push(
            presence
                | if takes_source { FROM_SOURCE } else { 0 }
                | if is_conflict { CONFLICT } else { 0 },
        );
        if takes_source {
            self.keys.add(key)?;
            match in_source {
                Some((_, id)) => {
                    let bytes = source.leaf.bytes(source.row)?;
                    self.edits.put(row, order.is_le(), bytes, id)?;
                }
                None => self.edits.drop(row),
            }
        }
        if !is_conflict {
            return Ok(());
        }
        let Some(decisions) = self.decisions else {
            let stored = |side: Option<(Entry, &Id)>| side.map(|(entry, _)| entry.value.to_vec());
            let base = if ancestor.is_some() { Some(self.base.stored()?) } else { None };
            let (source, dest) = (stored(in_source), stored(in_dest));
            self.conflicts.push(Conflict { key: key.to_vec(), base, source, dest });
            return Ok(());
        };
        let kind = *decisions.kinds.get(self.decided).ok_or(Declined)?;
        self.decided += 1;
        if kind == REPLACES {
            require(self.replaced < decisions.entries.len())?;
            let bytes = decisions.entries.get(self.replaced);
            self.replaced += 1;
            let entry = Entry::parse(bytes)?;
            require(entry.key == key)?;
            let id = entry.id().try_into().map_err(|_| Declined)?;
            self.edits.put(row, order.is_le(), bytes, &id)?;
        } else if kind == REMOVES && order.is_le() {
            self.edits.drop(row);
        }
        if kind != KEEPS_DEST {
            self.keys.add(key)?;
        }
        Ok(())
    }
}

/// Merges the selected keys of source into the ranges of dest.
///
/// Without decisions, conflicts are returned, and nothing is complete. The call with the decisions
/// finds the same conflicts again.
pub fn merge<'a>(
    [base, source, dest]: [&'a [Range<'a>]; 3],
    scope: &'a Scope<'a>,
    format: &'a Format<'a>,
    most_keys: usize,
    decisions: Option<&Decisions>,
) -> Outcome<Merged> {
    let mut pool = Pool::new();
    let [base, source] = [base, source].map(|ranges| Side::new(ranges, &scope.selected, false));
    let mut dest = Side::new(dest, &scope.hull, true);
    let mut out = NewRanges::new(format, &scope.pieces)?;
    let mut merge = Merge {
        base: Base { side: base, has_rows: false, row: 0 },
        edits: Edits::new(),
        keys: ChangedKeys::new(most_keys),
        differing: NewItems::with_capacity(0, 0),
        flags: Vec::new(),
        conflicts: Vec::new(),
        decisions,
        decided: 0,
        replaced: 0,
    };
    merge.base.has_rows = merge.base.side.advance(&mut pool)?;
    let mut pair = Pair { other: source, has_other: false };
    pair.has_other = pair.other.advance(&mut pool)?;
    while dest.advance(&mut pool)? {
        pair.block(&mut dest, &mut pool, &mut |dest, source, row, order, pool| {
            merge.differ(dest, source, row, order, pool)
        })?;
        if merge.conflicts.is_empty() {
            merge.edits.emit(&mut dest, &mut out, &mut pool)?;
        } else {
            merge.edits.clear();
        }
    }
    while pair.has_other {
        pair.other.open()?;
        merge.differ(&dest, &pair.other, 0, Ordering::Greater, &mut pool)?;
        pair.pass(&mut pool)?;
        if merge.conflicts.is_empty() {
            merge.edits.emit_tail(&mut out, &mut pool)?;
        } else {
            merge.edits.clear();
        }
    }
    if let Some(decisions) = decisions {
        let (kinds, entries) = (decisions.kinds.len(), decisions.entries.len());
        require(merge.decided == kinds && merge.replaced == entries)?;
    }
    let written = if merge.conflicts.is_empty() { out.finish(&mut pool)? } else { Vec::new() };
    Ok(Merged {
        written,
        keys: merge.keys.keys,
        differing: merge.differing,
        flags: merge.flags,
        conflicts: merge.conflicts,
    })
}
