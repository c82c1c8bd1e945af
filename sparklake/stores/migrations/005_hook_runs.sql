-- What came of hooks, one row an event. Each of `hooks` is one hook's result, in the order they ran.

CREATE TABLE sparklake.hook_runs (
    sequence       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    repository_uid text COLLATE "C" NOT NULL REFERENCES sparklake.repositories ON DELETE CASCADE,
    id             text COLLATE "C" NOT NULL UNIQUE,
    event          text NOT NULL,
    ref            text COLLATE "C" NOT NULL,
    commit_id      text COLLATE "C",
    who            text NOT NULL,
    date           bigint NOT NULL,
    status         text NOT NULL CHECK (status IN ('passed', 'failed', 'skipped')),
    hooks          jsonb NOT NULL
);

CREATE INDEX hook_runs_of_repository ON sparklake.hook_runs (repository_uid, sequence);
