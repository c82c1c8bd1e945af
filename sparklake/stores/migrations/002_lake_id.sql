-- What tells this ref store from every other one: a storage namespace says whose it is by it.

CREATE TABLE sparklake.lake (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    id  uuid NOT NULL DEFAULT gen_random_uuid()
);

INSERT INTO sparklake.lake DEFAULT VALUES;
