//! The files of one folder of a local disk, in columns.

use std::ffi::OsString;
use std::fs::{DirEntry, FileType, ReadDir, read_dir};
use std::io::{Error, ErrorKind, Result};
use std::path::Path;
use std::time::UNIX_EPOCH;

use crate::bytes::NewItems;

/// Some files of a folder. `mtimes` are in unix nanoseconds.
pub struct Files {
    pub keys: NewItems,
    pub sizes: Vec<i64>,
    pub mtimes: Vec<i64>,
    /// The names of entries that are no plain files, or that are not UTF-8.
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
        while files.sizes.len() + files.others.len() < most
            && let Some(entry) = self.entries.next()
        {
            let entry = entry?;
            match entry.file_type().and_then(|kind| self.add(&entry, kind, &mut files)) {
                Err(error) if is_gone(&error) => {}
                added => added?,
            }
        }
        Ok(files)
    }

    fn add(&self, entry: &DirEntry, kind: FileType, files: &mut Files) -> Result<()> {
        let name = entry.file_name();
        let is_plain = |name: &&str| kind.is_file() && *name != self.skipped;
        let Some(text) = name.to_str().filter(is_plain) else {
            files.others.push(name);
            return Ok(());
        };
        let status = entry.metadata()?;
        let size = i64::try_from(status.len()).map_err(Error::other)?;
        let mtime = match status.modified()?.duration_since(UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_nanos()),
            Err(before) => i64::try_from(before.duration().as_nanos()).map(|nanos| -nanos),
        };
        let mtime = mtime.map_err(Error::other)?;
        files.keys.data.extend_from_slice(self.start.as_bytes());
        files.keys.push(text.as_bytes()).map_err(|_| Error::other("a batch is too large"))?;
        files.sizes.push(size);
        files.mtimes.push(mtime);
        Ok(())
    }
}

/// Returns whether an entry was deleted meanwhile.
fn is_gone(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}
