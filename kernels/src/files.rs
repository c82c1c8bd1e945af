//! The MD5 of small files, on all cores.

use std::fs::File;
use std::io::{Error, Read, Result};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Mutex;
use std::thread::{available_parallelism, scope};

use md5::{Digest, Md5};

use crate::bytes::{Declined, Items, NewItems, Outcome, require};

const DIGITS: &[u8; 16] = b"0123456789abcdef";
const FILES_AT_ONCE: usize = 64;
const PART_BYTES: usize = 64 * 1024;

type Digits = [u8; 32];

/// Returns the MD5 of files as hex digits; nothing for those that only the fallback reads.
///
/// Such are files of more than `most` bytes, links, FIFOs, and those that cannot be read. `sizes`
/// saves a read where a file has the expected size.
pub fn md5_files(paths: &Items, sizes: &[i64], most: usize) -> Outcome<NewItems> {
    require(sizes.len() == paths.len())?;
    let mut found: Vec<Option<Digits>> = vec![None; paths.len()];
    let cores = available_parallelism().map_or(1, usize::from);
    let work = Mutex::new(found.chunks_mut(FILES_AT_ONCE).enumerate());
    scope(|threads| {
        for _ in 0..cores.min(paths.len().div_ceil(FILES_AT_ONCE)) {
            threads.spawn(|| {
                let mut part = vec![0; PART_BYTES];
                while let Some((number, chunk)) = work.lock().ok().and_then(|mut each| each.next())
                {
                    for (at, digits) in chunk.iter_mut().enumerate() {
                        let at = number * FILES_AT_ONCE + at;
                        let path = std::str::from_utf8(paths.run(at, at + 1));
                        *digits =
                            path.ok().and_then(|path| md5(path, sizes[at], most, &mut part).ok());
                    }
                }
            });
        }
    });
    let mut items = NewItems::with_capacity(found.len(), found.len() * size_of::<Digits>());
    for digits in &found {
        items.push(digits.as_ref().map_or(&[], |digits| digits)).map_err(|_| Declined)?;
    }
    Ok(items)
}

fn md5(path: &str, size: i64, most: usize, part: &mut [u8]) -> Result<Digits> {
    // Without O_NONBLOCK, the open of a FIFO waits for a writer.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let mut file = File::options().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(Error::other("not a regular file"));
    }
    let (mut digest, mut length) = (Md5::new(), 0);
    loop {
        let count = file.read(part)?;
        length += count;
        if count == 0 {
            break;
        }
        if length > most {
            return Err(Error::other("a large file"));
        }
        digest.update(&part[..count]);
        if count < part.len() && i64::try_from(length) == Ok(size) {
            break;
        }
    }
    let mut digits = [0; 32];
    for (at, byte) in digest.finalize().iter().enumerate() {
        digits[2 * at] = DIGITS[usize::from(byte >> 4)];
        digits[2 * at + 1] = DIGITS[usize::from(byte & 0xF)];
    }
    Ok(digits)
}
