//! The files of one folder of a local disk, in columns.

use std::ffi::OsString;
use std::fs::{DirEntry, ReadDir, read_dir};
use std::io::{Error, Result};
use std::path::Path;
use std::time::UNIX_EPOCH;

use crate::bytes::NewItems;

/// Some files of a folder. `mtimes` are in unix nanoseconds.
pub struct Files {
    pub keys: NewItems,
    pub sizes: Vec<i64>,
    pub mtimes: Vec<i64>,
    /// The names of all other entries.
    pub others: Vec<OsString>,
}

/// An open folder. Each key is `start` and the name of a file. Files named `skipped` are others.
pub struct Folder {
    entries: ReadDir,
    start: String,
    skipped: String,
}

impl Folder {
    pub fn open(path: &Path, start: String, skipped: String) -> Result<Self> {
        Ok(Self { entries: read_dir(path)?, start, skipped })
    }

    /// Returns the next entries, at most some; none at the end of the folder.
    pub fn read(&mut self, most: usize) -> Result<Files> {
        let mut files = Files {
            keys: NewItems::with_capacity(0, 0),
            sizes: Vec::new(),
            mtimes: Vec::new(),
            others: Vec::new(),
        };
        while files.sizes.len() + files.others.len() < most {
            let Some(entry) = self.entries.next() else {
                break;
            };
            let entry = entry?;
            let Some((name, size, mtime)) = self.plain_file(&entry) else {
                files.others.push(entry.file_name());
                continue;
            };
            files.keys.data.extend_from_slice(self.start.as_bytes());
            let added = files.keys.push(name.as_bytes());
            added.map_err(|_| Error::other("a batch of names is too large"))?;
            files.sizes.push(size);
            files.mtimes.push(mtime);
        }
        Ok(files)
    }

    /// Returns name, size and time; None for an entry that only the fallback reads.
    ///
    /// Such are links, folders, names that are not UTF-8, deleted files, and those that the system
    /// refuses to show.
    fn plain_file(&self, entry: &DirEntry) -> Option<(String, i64, i64)> {
        if !entry.file_type().ok()?.is_file() {
            return None;
        }
        let name = entry.file_name().into_string().ok()?;
        if name == self.skipped {
            return None;
        }
        let status = entry.metadata().ok()?;
        let mtime = match status.modified().ok()?.duration_since(UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_nanos()).ok()?,
            Err(before) => -i64::try_from(before.duration().as_nanos()).ok()?,
        };
        Some((name, i64::try_from(status.len()).ok()?, mtime))
    }
}
