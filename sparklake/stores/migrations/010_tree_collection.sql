-- When commits have expired, and which of them have lost their trees since. For commits that expired
-- earlier, the time of this migration counts. `tree_sweeps` counts the
-- sweeps that have deleted trees: whoever reads a higher number forgets the tables in its caches.

ALTER TABLE sparklake.expired_commits
    ADD COLUMN expired_at bigint NOT NULL DEFAULT floor(extract(epoch FROM clock_timestamp())),
    ADD COLUMN tree_collected boolean NOT NULL DEFAULT false;

ALTER TABLE sparklake.repositories ADD COLUMN tree_sweeps bigint NOT NULL DEFAULT 0;
