-- Writes of tables: where each puts its files, and what came of it. One that is open may stage what it
-- has written, once; it is done in the transaction that stages it.

CREATE TABLE sparklake.writes (
    repository_uid text COLLATE "C" NOT NULL REFERENCES sparklake.repositories ON DELETE CASCADE,
    id             text COLLATE "C" NOT NULL,
    place          text COLLATE "C" NOT NULL,
    branch         text COLLATE "C" NOT NULL,
    who            text NOT NULL,
    started_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    state          text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'done', 'abandoned')),
    PRIMARY KEY (repository_uid, id)
);

CREATE INDEX writes_not_done ON sparklake.writes (repository_uid, started_at, id)
    WHERE state <> 'done';
