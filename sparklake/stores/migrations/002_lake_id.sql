-- What tells this ref store from every other one: a storage namespace says whose it is by it.

CREATE TABLE sparklake.lake (
    only boolean PRIMARY KEY DEFAULT true CHECK (only),
    id   uuid NOT NULL DEFAULT gen_random_uuid()
);

INSERT INTO sparklake.lake DEFAULT VALUES;
