-- How many garbage collections have begun. Every branch says it too, so that whoever changes one
-- learns of it from the row that it locks anyway.

ALTER TABLE sparklake.repositories ADD COLUMN fence bigint NOT NULL DEFAULT 0;
ALTER TABLE sparklake.branches ADD COLUMN fence bigint NOT NULL DEFAULT 0;
