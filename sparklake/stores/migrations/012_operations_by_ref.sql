-- Checks, collections, dumps and undos ask for the latest operation of a ref, and where it has been.

CREATE INDEX operations_of_ref ON sparklake.operations (repository_uid, ref, sequence);
