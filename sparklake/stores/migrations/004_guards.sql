-- What a repository refuses, and its labels. `protection` has the blocked actions by pattern.

ALTER TABLE sparklake.repositories
    ADD COLUMN read_only  boolean NOT NULL DEFAULT false,
    ADD COLUMN protection jsonb   NOT NULL DEFAULT '{}',
    ADD COLUMN metadata   jsonb   NOT NULL DEFAULT '{}';

-- Every branch carries what is refused on it, so that whoever changes one learns of it from the row
-- that it locks anyway. Who changes the repository's row changes these rows in the same transaction.
ALTER TABLE sparklake.branches
    ADD COLUMN hidden    boolean NOT NULL DEFAULT false,
    ADD COLUMN expires   timestamptz,
    ADD COLUMN read_only boolean NOT NULL DEFAULT false,
    ADD COLUMN protected text[]  NOT NULL DEFAULT '{}';
