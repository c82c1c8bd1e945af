-- What has been taken out of all history: the receipts lie in the storage namespace.

CREATE TABLE sparklake.purges (
    sequence       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    repository_uid text COLLATE "C" NOT NULL REFERENCES sparklake.repositories ON DELETE CASCADE,
    id             text COLLATE "C" NOT NULL UNIQUE,
    who            text NOT NULL,
    date           bigint NOT NULL,
    message        text NOT NULL,
    patterns       jsonb NOT NULL,
    state          text NOT NULL CHECK (state IN ('deleting', 'done')),
    counts         jsonb NOT NULL,
    even_shared    boolean NOT NULL,
    also_external  boolean NOT NULL
);

CREATE INDEX purges_of_repository ON sparklake.purges (repository_uid, sequence);
