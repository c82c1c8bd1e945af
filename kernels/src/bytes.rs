//! Checked reads of bytes that nobody vouches for.

use std::cmp::Ordering;

/// The answer of a kernel that leaves a case to the fallback, such as damaged bytes.
///
/// The fallback repeats the work in Python, and raises the error if there is one. So a kernel may
/// decline whatever is unusual, but must never accept what the fallback rejects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Declined;

pub type Outcome<T> = Result<T, Declined>;

/// The bytes of a record id.
pub const ID_BYTES: usize = 32;

/// Returns an error unless a condition holds.
#[inline]
pub fn require(holds: bool) -> Outcome<()> {
    if holds { Ok(()) } else { Err(Declined) }
}

/// Returns the bytes from `start` up to and without `stop`.
#[inline]
pub fn part(data: &[u8], start: usize, stop: usize) -> Outcome<&[u8]> {
    data.get(start..stop).ok_or(Declined)
}

/// Splits a slice into arrays of `N` items and the remaining items.
#[inline]
pub fn arrays<T: bytemuck::Pod, const N: usize>(items: &[T]) -> (&[[T; N]], &[T]) {
    let (whole, remaining) = items.split_at(items.len() - items.len() % N);
    (bytemuck::cast_slice(whole), remaining)
}

/// Returns a number of a file as a position.
#[inline]
pub fn position(number: i64) -> Outcome<usize> {
    usize::try_from(number).map_err(|_| Declined)
}

/// Returns the varint at a position, below 2^63, and the position after it.
#[inline]
pub fn varint(data: &[u8], at: usize) -> Outcome<(u64, usize)> {
    let first = *data.get(at).ok_or(Declined)?;
    if first < 0x80 {
        return Ok((u64::from(first), at + 1));
    }
    let mut number = u64::from(first & 0x7F);
    for step in 1..9 {
        let byte = *data.get(at + step).ok_or(Declined)?;
        number |= u64::from(byte & 0x7F) << (7 * step);
        if byte < 0x80 {
            return Ok((number, at + step + 1));
        }
    }
    Err(Declined)
}

/// Returns a varint that is a length or a position, and the position after it.
#[inline]
pub fn length(data: &[u8], at: usize) -> Outcome<(usize, usize)> {
    let (number, at) = varint(data, at)?;
    Ok((usize::try_from(number).map_err(|_| Declined)?, at))
}

/// Appends a varint.
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number > 0x7F {
        out.push((number & 0x7F) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Returns the number of bytes of a varint.
#[inline]
pub fn varint_bytes(number: u64) -> usize {
    (70 - (number | 1).leading_zeros() as usize) / 7
}

/// Returns the four bytes at a position as a number.
#[inline]
pub fn word32(data: &[u8], at: usize) -> Outcome<u32> {
    let bytes = part(data, at, at.checked_add(4).ok_or(Declined)?)?;
    Ok(u32::from_le_bytes(bytes.try_into().map_err(|_| Declined)?))
}

/// Returns the eight bytes at a position as a number.
#[inline]
pub fn word64(data: &[u8], at: usize) -> Outcome<u64> {
    let bytes = part(data, at, at.checked_add(8).ok_or(Declined)?)?;
    Ok(u64::from_le_bytes(bytes.try_into().map_err(|_| Declined)?))
}

/// Items of a column of bytes: item `i` is `data[bounds[i]..bounds[i + 1]]`.
#[derive(Clone, Copy)]
pub struct Items<'a> {
    data: &'a [u8],
    bounds: &'a [i32],
}

impl<'a> Items<'a> {
    /// Returns a column after a check of all its bounds.
    pub fn new(data: &'a [u8], bounds: &'a [i32]) -> Outcome<Self> {
        let (first, last) = (bounds.first().ok_or(Declined)?, bounds.last().ok_or(Declined)?);
        let ascend = bounds.iter().zip(&bounds[1..]).all(|(one, next)| one <= next);
        require(*first >= 0 && ascend && *last as usize <= data.len())?;
        Ok(Self { data, bounds })
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.bounds.len() - 1
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes of some consecutive items.
    #[inline]
    pub fn run(&self, first: usize, stop: usize) -> &'a [u8] {
        &self.data[self.bounds[first] as usize..self.bounds[stop] as usize]
    }

    #[inline]
    pub fn get(&self, row: usize) -> &'a [u8] {
        self.run(row, row + 1)
    }

    pub fn total(&self) -> usize {
        self.run(0, self.len()).len()
    }

    /// Returns the position after each item, counted from the first item's start.
    pub fn ends(&self) -> impl Iterator<Item = usize> + '_ {
        self.bounds[1..].iter().map(|end| (end - self.bounds[0]) as usize)
    }

    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + '_ {
        (0..self.len()).map(|row| self.get(row))
    }
}

/// A column of bytes under construction. Its size must stay below 2^31.
pub struct NewItems {
    pub data: Vec<u8>,
    pub bounds: Vec<i32>,
}

impl NewItems {
    pub fn with_capacity(items: usize, bytes: usize) -> Self {
        let mut bounds = Vec::with_capacity(items + 1);
        bounds.push(0);
        Self { data: Vec::with_capacity(bytes), bounds }
    }

    pub fn items(&self) -> Outcome<Items<'_>> {
        Items::new(&self.data, &self.bounds)
    }

    /// Ends an item after the last byte of `data`.
    #[inline]
    pub fn end(&mut self) -> Outcome<()> {
        self.bounds.push(i32::try_from(self.data.len()).map_err(|_| Declined)?);
        Ok(())
    }

    #[inline]
    pub fn push(&mut self, item: &[u8]) -> Outcome<()> {
        self.data.extend_from_slice(item);
        self.end()
    }
}

/// Keys in place in `data`, each with a start and a length.
#[derive(Clone, Copy)]
pub struct Keys<'a> {
    pub data: &'a [u8],
    pub starts: &'a [i64],
    pub lengths: &'a [i64],
}

impl<'a> Keys<'a> {
    /// Returns keys after a check of all their bounds.
    pub fn new(data: &'a [u8], starts: &'a [i64], lengths: &'a [i64]) -> Outcome<Self> {
        require(starts.len() == lengths.len())?;
        let size = i64::try_from(data.len()).map_err(|_| Declined)?;
        let inside = |(start, length): (&i64, &i64)| {
            *start >= 0 && *length >= 0 && *start <= size && *length <= size - *start
        };
        require(starts.iter().zip(lengths).all(inside))?;
        Ok(Self { data, starts, lengths })
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    #[inline]
    pub fn get(&self, row: usize) -> &'a [u8] {
        let start = self.starts[row] as usize;
        &self.data[start..start + self.lengths[row] as usize]
    }

    /// Returns the position of the first key from `low` on that is at or above another one.
    ///
    /// Doubles the step first, because wanted keys often lie close together.
    pub fn lower_bound(&self, wanted: &[u8], mut low: usize) -> usize {
        let mut step = 1;
        let mut high = low;
        while high < self.len() && self.get(high).cmp(wanted) == Ordering::Less {
            low = high + 1;
            high = low + step;
            step *= 2;
        }
        high = high.min(self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.get(middle) < wanted {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}
