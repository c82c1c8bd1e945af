-- Names and ids sort by bytes, so that every list has the order that the ports promise.

CREATE TABLE sparklake.repositories (
    uid               text COLLATE "C" PRIMARY KEY,
    name              text COLLATE "C" NOT NULL UNIQUE,
    storage_namespace text COLLATE "C" NOT NULL,
    default_branch    text COLLATE "C" NOT NULL,
    creation_date     bigint NOT NULL
);

CREATE TABLE sparklake.settings (
    repository_uid text COLLATE "C" NOT NULL REFERENCES sparklake.repositories ON DELETE CASCADE,
    name           text COLLATE "C" NOT NULL,
    value          jsonb NOT NULL,
    PRIMARY KEY (repository_uid, name)
);

CREATE TABLE sparklake.commits (
    repository_uid text COLLATE "C" NOT NULL REFERENCES sparklake.repositories ON DELETE CASCADE,
    id             text COLLATE "C" NOT NULL,
    parents        text[] NOT NULL,
    committer      text NOT NULL,
    message        text NOT NULL,
    creation_date  bigint NOT NULL,
    meta_range_id  text COLLATE "C" NOT NULL,
    metadata       jsonb NOT NULL,
    generation     bigint NOT NULL,
    PRIMARY KEY (repository_uid, id)
);

-- The reference to the repository stands before the one to the commit: it is checked first, so rows
-- are locked in the order in which deleting a repository locks them.
CREATE TABLE sparklake.branches (
    repository_uid text COLLATE "C" NOT NULL REFERENCES sparklake.repositories ON DELETE CASCADE,
    name           text COLLATE "C" NOT NULL,
    commit_id      text COLLATE "C" NOT NULL,
    PRIMARY KEY (repository_uid, name),
    FOREIGN KEY (repository_uid, commit_id) REFERENCES sparklake.commits
);

CREATE TABLE sparklake.tags (
    repository_uid text COLLATE "C" NOT NULL REFERENCES sparklake.repositories ON DELETE CASCADE,
    name           text COLLATE "C" NOT NULL,
    commit_id      text COLLATE "C" NOT NULL,
    PRIMARY KEY (repository_uid, name),
    FOREIGN KEY (repository_uid, commit_id) REFERENCES sparklake.commits
);

-- The layer with the highest id is the top one.
CREATE TABLE sparklake.layers (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    repository_uid text COLLATE "C" NOT NULL,
    branch         text COLLATE "C" NOT NULL,
    kind           text NOT NULL CHECK (kind IN ('rows', 'run')),
    sealed         boolean NOT NULL,
    meta_range_id  text COLLATE "C",
    FOREIGN KEY (repository_uid, branch) REFERENCES sparklake.branches,
    CHECK ((kind = 'run') = (meta_range_id IS NOT NULL)),
    CHECK (kind = 'rows' OR sealed)
);

CREATE INDEX layers_of_branch ON sparklake.layers (repository_uid, branch, id);

-- A branch has at most one layer that takes writes.
CREATE UNIQUE INDEX open_layer_of_branch ON sparklake.layers (repository_uid, branch)
    WHERE NOT sealed;

-- No foreign key to the layers: it would be checked row by row, and writers hold the layer's row
-- lock anyway.
CREATE TABLE sparklake.staged_rows (
    layer_id bigint NOT NULL,
    key      bytea NOT NULL,
    value    bytea NOT NULL,
    PRIMARY KEY (layer_id, key)
);

-- No foreign key: the log outlives refs and repositories.
CREATE TABLE sparklake.operations (
    sequence       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    repository_uid text COLLATE "C" NOT NULL,
    date           timestamptz NOT NULL DEFAULT clock_timestamp(),
    who            text NOT NULL,
    verb           text NOT NULL,
    ref            text COLLATE "C" NOT NULL,
    from_commit    text COLLATE "C",
    to_commit      text COLLATE "C"
);

CREATE INDEX operations_of_repository ON sparklake.operations (repository_uid, sequence);

CREATE FUNCTION sparklake.refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '%.% only grows: % is refused', TG_TABLE_SCHEMA, TG_TABLE_NAME, TG_OP;
END
$$;

CREATE TRIGGER only_grows BEFORE UPDATE OR DELETE OR TRUNCATE ON sparklake.operations
    FOR EACH STATEMENT EXECUTE FUNCTION sparklake.refuse_change();
