//! SHA-256, with the processor's instructions where it has them.

use sha2::{Digest, Sha256};

use crate::bytes::{ID_BYTES, Items};

pub type Id = [u8; ID_BYTES];

#[inline]
pub fn sha256(data: &[u8]) -> Id {
    Sha256::digest(data).into()
}

/// Returns the record id from the hashes of a key and of an identity.
#[inline]
pub fn record_id(key: &[u8], identity_hash: &Id) -> Id {
    let mut both = [0; 2 * ID_BYTES];
    both[..ID_BYTES].copy_from_slice(&sha256(key));
    both[ID_BYTES..].copy_from_slice(identity_hash);
    sha256(&both)
}

/// Returns the hashes of items, one after the other.
pub fn sha256_each(items: &Items) -> Vec<u8> {
    let mut out = Vec::with_capacity(items.len() * ID_BYTES);
    for item in items.iter() {
        out.extend_from_slice(&sha256(item));
    }
    out
}
