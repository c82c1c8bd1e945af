//! Walks over the ids and keys of sides.

use crate::bytes::{ID_BYTES, Keys, NewItems, Outcome, arrays, position, require};
use crate::hashing::Id;

/// The position of a record that a side does not have.
pub const NO_ROW: i64 = -1;

/// Returns the ids in some bytes.
pub fn ids_of(bytes: &[u8]) -> Outcome<&[Id]> {
    let (ids, rest) = arrays::<_, ID_BYTES>(bytes);
    require(rest.is_empty())?;
    Ok(ids)
}

fn first_word(id: &Id) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&id[..8]);
    u64::from_le_bytes(word)
}

/// A hash table of ids, which are hashes already. Equal ids are in it once.
struct IdTable<'a> {
    ids: &'a [Id],
    /// Position + 1 of an id, or 0.
    slots: Vec<u32>,
    mask: usize,
}

impl<'a> IdTable<'a> {
    fn new(ids: &'a [Id]) -> Outcome<Self> {
        require(ids.len() < u32::MAX as usize / 4)?;
        let size = (2 * ids.len() + 1).next_power_of_two();
        let mut table = Self { ids, slots: vec![0; size], mask: size - 1 };
        for (row, id) in ids.iter().enumerate() {
            let slot = table.slot(id);
            if table.slots[slot] == 0 {
                table.slots[slot] = row as u32 + 1;
            }
        }
        Ok(table)
    }

    /// Returns the slot of an id, or the free one for it. Half of the slots are free.
    #[inline]
    fn slot(&self, id: &Id) -> usize {
        // The first byte of the last id of a data block has low bits of zero.
        let mut slot = (first_word(id) >> 16) as usize & self.mask;
        while self.slots[slot] != 0 && self.ids[self.slots[slot] as usize - 1] != *id {
            slot = (slot + 1) & self.mask;
        }
        slot
    }
}

/// Returns the positions of the ids of each side that the other side does not have.
///
/// The common start is not compared again. Ids may repeat.
pub fn unequal(left: &[Id], right: &[Id]) -> Outcome<(Vec<i64>, Vec<i64>)> {
    let start = left.iter().zip(right).take_while(|(one, other)| one == other).count();
    let (left, right) = (&left[start..], &right[start..]);
    if left.is_empty() && right.is_empty() {
        return Ok((Vec::new(), Vec::new()));
    }
    Ok((missing(left, right, start)?, missing(right, left, start)?))
}

/// Returns the positions of ids that are not among others, plus `start`.
fn missing(ids: &[Id], others: &[Id], start: usize) -> Outcome<Vec<i64>> {
    let table = IdTable::new(others)?;
    // Most ids come directly after the one before them.
    let mut next = 0;
    let mut rows = Vec::new();
    for (row, id) in ids.iter().enumerate() {
        if others.get(next) == Some(id) {
            next += 1;
            continue;
        }
        match table.slots[table.slot(id)] {
            0 => rows.push((start + row) as i64),
            found => next = found as usize,
        }
    }
    Ok(rows)
}

/// Returns the position of each wanted id among some ids, or NO_ROW.
///
/// Of ids with the same first word, only the first one is found, as in the fallback.
pub fn found_ids(ids: &[Id], wanted: &[Id]) -> Outcome<Vec<i64>> {
    require(wanted.len() < u32::MAX as usize / 4)?;
    let size = (4 * wanted.len() + 1).next_power_of_two();
    let mask = size - 1;
    // The first words that are wanted, each with the first position that has it.
    let mut slots: Vec<(u64, i64)> = vec![(0, NO_ROW - 1); size];
    let slot_of = |slots: &[(u64, i64)], word: u64| {
        let mut slot = (word >> 16) as usize & mask;
        while slots[slot].1 != NO_ROW - 1 && slots[slot].0 != word {
            slot = (slot + 1) & mask;
        }
        slot
    };
    for id in wanted {
        let slot = slot_of(&slots, first_word(id));
        slots[slot] = (first_word(id), NO_ROW);
    }
    for (row, id) in ids.iter().enumerate() {
        let slot = slot_of(&slots, first_word(id));
        if slots[slot].1 == NO_ROW {
            slots[slot].1 = row as i64;
        }
    }
    let place = |id: &Id| {
        let row = slots[slot_of(&slots, first_word(id))].1;
        if row >= 0 && ids[row as usize] == *id { row } else { NO_ROW }
    };
    Ok(wanted.iter().map(place).collect())
}

/// Returns the insertion position of each wanted key, and whether it exists.
pub fn search(keys: &Keys, wanted: &Keys) -> (Vec<i64>, Vec<bool>) {
    let mut places = Vec::with_capacity(wanted.len());
    let mut found = Vec::with_capacity(wanted.len());
    let mut low = 0;
    for row in 0..wanted.len() {
        let key = wanted.get(row);
        if low > 0 && keys.get(low - 1) >= key {
            low = 0;
        }
        low = keys.lower_bound(key, low);
        places.push(low as i64);
        found.push(low < keys.len() && keys.get(low) == key);
    }
    (places, found)
}

/// Returns the rows of two sides in key order, with NO_ROW where a side lacks the key.
pub fn paired(left: &Keys, right: &Keys) -> (Vec<i64>, Vec<i64>) {
    let most = left.len() + right.len();
    let (mut at_left, mut at_right) = (Vec::with_capacity(most), Vec::with_capacity(most));
    let (mut row, mut other) = (0, 0);
    while row < left.len() || other < right.len() {
        let order = if row == left.len() {
            std::cmp::Ordering::Greater
        } else if other == right.len() {
            std::cmp::Ordering::Less
        } else {
            left.get(row).cmp(right.get(other))
        };
        at_left.push(if order.is_le() { row as i64 } else { NO_ROW });
        at_right.push(if order.is_ge() { other as i64 } else { NO_ROW });
        row += usize::from(order.is_le());
        other += usize::from(order.is_ge());
    }
    (at_left, at_right)
}

/// Returns the positions after the ids that a number divides, as big-endian integers.
pub fn range_ends(ids: &[Id], divisor: u64) -> Outcome<Vec<i64>> {
    require(divisor > 0 && divisor <= u64::from(u32::MAX))?;
    let ends = ids.iter().enumerate().filter(|(_, id)| is_range_end(id, divisor));
    Ok(ends.map(|(row, _)| row as i64 + 1).collect())
}

/// Returns whether a number of 1 to 2^32 - 1 divides an id.
#[inline]
pub fn is_range_end(id: &Id, divisor: u64) -> bool {
    if divisor.is_power_of_two() {
        // It divides the whole number if it divides the last word.
        let mut word = [0; 4];
        word.copy_from_slice(&id[ID_BYTES - 4..]);
        return u64::from(u32::from_be_bytes(word)) % divisor == 0;
    }
    let mut rest = 0;
    for word in arrays::<_, 4>(id).0 {
        rest = (rest << 32 | u64::from(u32::from_be_bytes(*word))) % divisor;
    }
    rest == 0
}

/// Returns a copy of slices of `data`.
pub fn gather(slices: &Keys) -> Outcome<NewItems> {
    let total: i64 = slices.lengths.iter().sum();
    let mut out = NewItems::with_capacity(slices.len(), position(total)?.min(i32::MAX as usize));
    for row in 0..slices.len() {
        out.push(slices.get(row))?;
    }
    Ok(out)
}
