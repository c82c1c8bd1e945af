-- For how long commits are kept, null for ever; and those that have expired by it. A commit itself
-- never changes: what is said of it stands beside it.

ALTER TABLE sparklake.repositories ADD COLUMN retention jsonb;

CREATE TABLE sparklake.expired_commits (
    repository_uid text COLLATE "C" NOT NULL,
    commit_id      text COLLATE "C" NOT NULL,
    PRIMARY KEY (repository_uid, commit_id),
    FOREIGN KEY (repository_uid, commit_id) REFERENCES sparklake.commits ON DELETE CASCADE
);
