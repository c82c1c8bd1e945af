"""Errors, grouped by the reaction of a caller.

Every class has a stable `kind` for programs and an `exit_code` for the shell. A message states what
failed, on what, and what to do next.
"""

from __future__ import annotations

from sparklake.errors.inputs import (
    ImportErrorsError,
    InvalidDumpError,
    InvalidHooksError,
    InvalidInputError,
    InvalidKeyError,
    InvalidNameError,
    InvalidRecordError,
    InvalidRefError,
    InvalidUriError,
    OnceKeyReusedError,
    UnsupportedNamesError,
)
from sparklake.errors.lookups import (
    AlreadyExistsError,
    AmbiguousRefError,
    ImmutableRefError,
    NamespaceInUseError,
    NotFoundError,
    ObjectNotFoundError,
    ProtectedError,
    ReadOnlyError,
    RefNotFoundError,
    RepositoryNotFoundError,
)
from sparklake.errors.races import (
    ChangesTakenError,
    CollectionBegunError,
    CollectionOpenError,
    OnceKeyBusyError,
    PurgeOpenError,
    RaceLostError,
    TableMovedError,
    UnexpectedHeadError,
    WriteEndedError,
)
from sparklake.errors.refusals import (
    AddressTakenError,
    DirtyBranchError,
    ExpiredError,
    HookFailedError,
    HookNotAllowedError,
    MergeConflictError,
    NewerDumpError,
    NoChangesError,
    NothingToDoError,
    PurgeBlockedError,
    StrategyError,
    TransactionError,
)
from sparklake.errors.root import (
    InterruptError,
    MissingDependencyError,
    SparklakeError,
)
from sparklake.errors.systems import (
    CorruptFileError,
    LockHeldError,
    LostResultError,
    MissingFileError,
    PurgedError,
    ReadOnlyNamespaceError,
    RefsLostError,
    RefStoreUnavailableError,
    StoreError,
    StorePermissionError,
    StoreUnreachableError,
)

__all__ = [
    "AddressTakenError",
    "AlreadyExistsError",
    "AmbiguousRefError",
    "ChangesTakenError",
    "CollectionBegunError",
    "CollectionOpenError",
    "CorruptFileError",
    "DirtyBranchError",
    "ExpiredError",
    "HookFailedError",
    "HookNotAllowedError",
    "ImmutableRefError",
    "ImportErrorsError",
    "InterruptError",
    "InvalidDumpError",
    "InvalidHooksError",
    "InvalidInputError",
    "InvalidKeyError",
    "InvalidNameError",
    "InvalidRecordError",
    "InvalidRefError",
    "InvalidUriError",
    "LockHeldError",
    "LostResultError",
    "MergeConflictError",
    "MissingDependencyError",
    "MissingFileError",
    "NamespaceInUseError",
    "NewerDumpError",
    "NoChangesError",
    "NotFoundError",
    "NothingToDoError",
    "ObjectNotFoundError",
    "OnceKeyBusyError",
    "OnceKeyReusedError",
    "ProtectedError",
    "PurgeBlockedError",
    "PurgeOpenError",
    "PurgedError",
    "RaceLostError",
    "ReadOnlyError",
    "ReadOnlyNamespaceError",
    "RefNotFoundError",
    "RefStoreUnavailableError",
    "RefsLostError",
    "RepositoryNotFoundError",
    "SparklakeError",
    "StoreError",
    "StorePermissionError",
    "StoreUnreachableError",
    "StrategyError",
    "TableMovedError",
    "TransactionError",
    "UnexpectedHeadError",
    "UnsupportedNamesError",
    "WriteEndedError",
]

# Tracebacks and pickles name the public path.
for _name in __all__:
    globals()[_name].__module__ = __name__
