-- What a commit may have changed, in a form of the core's own; null where it is not known.

ALTER TABLE sparklake.commits ADD COLUMN touched bytea;
