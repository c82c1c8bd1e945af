//! Loops over records: hashes, tree files, comparisons and entries.
//!
//! Each function has a definition in Python, which is its oracle and its fallback. A function
//! declines what it does not handle, such as damaged bytes: then the definition runs instead, and
//! raises the error if there is one. The modules besides this one know no Python.

pub mod bytes;
pub mod entry;
pub mod fields;
pub mod files;
pub mod folder;
pub mod format;
pub mod hashing;
pub mod listing;
pub mod named;
pub mod ranges;
pub mod read;
pub mod tables;
pub mod tasks;
pub mod texts;
pub mod verify;
pub mod walks;
pub mod write;

#[cfg(feature = "python")]
mod python;
