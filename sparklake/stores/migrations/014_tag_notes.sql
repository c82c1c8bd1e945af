-- Who made a tag, when, and what was said of it. The operations log knows the first two of older tags.

ALTER TABLE sparklake.tags
    ADD COLUMN who           text   NOT NULL DEFAULT '',
    ADD COLUMN creation_date bigint NOT NULL DEFAULT 0,
    ADD COLUMN message       text   NOT NULL DEFAULT '',
    ADD COLUMN metadata      jsonb  NOT NULL DEFAULT '{}';

UPDATE sparklake.tags t SET who = o.who, creation_date = floor(extract(epoch FROM o.date))
FROM (
    SELECT DISTINCT ON (repository_uid, ref) repository_uid, ref, who, date, to_commit
    FROM sparklake.operations ORDER BY repository_uid, ref, sequence DESC
) o
WHERE o.repository_uid = t.repository_uid AND o.ref = t.name AND o.to_commit = t.commit_id;
