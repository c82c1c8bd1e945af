-- The keys that callers give to runs of verbs, so that a repeated run changes nothing. A key is added in
-- the transaction of the run's change. `digest` is of the verb and its arguments, `run` is the run that made
-- the change, and `result` is its result in JSON: as text, because jsonb refuses some characters of paths.

CREATE TABLE sparklake.once_keys (
    repository_uid text COLLATE "C" NOT NULL REFERENCES sparklake.repositories ON DELETE CASCADE,
    key            text COLLATE "C" NOT NULL,
    digest         text NOT NULL,
    run            text NOT NULL,
    result         text NOT NULL,
    expires        timestamptz NOT NULL,
    PRIMARY KEY (repository_uid, key)
);

CREATE INDEX once_keys_by_expiry ON sparklake.once_keys (repository_uid, expires);
