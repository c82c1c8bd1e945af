-- Locks that outlive a transaction. The lowest ticket of a name that is alive holds the lock: its time has not
-- expired, and the session that stored it, if it is known, exists. After a crash of the server, no lock is held.

CREATE UNLOGGED TABLE sparklake.leases (
    name    text COLLATE "C" NOT NULL,
    ticket  bigint GENERATED ALWAYS AS IDENTITY,
    expires timestamptz NOT NULL,
    session integer,
    PRIMARY KEY (name, ticket)
);
