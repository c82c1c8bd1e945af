CREATE SCHEMA sparklake;
CREATE FUNCTION sparklake.refuse_change() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    RAISE EXCEPTION '%.% only grows: % is refused', TG_TABLE_SCHEMA, TG_TABLE_NAME, TG_OP;
END
$$;
CREATE TABLE sparklake.branches (
    repository_uid text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    commit_id text NOT NULL COLLATE pg_catalog."C",
    hidden boolean DEFAULT false NOT NULL,
    expires timestamp with time zone,
    read_only boolean DEFAULT false NOT NULL,
    protected text[] DEFAULT '{}'::text[] NOT NULL,
    fence bigint DEFAULT 0 NOT NULL
);
CREATE TABLE sparklake.commits (
    repository_uid text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    parents text[] NOT NULL,
    committer text NOT NULL,
    message text NOT NULL,
    creation_date bigint NOT NULL,
    meta_range_id text NOT NULL COLLATE pg_catalog."C",
    metadata jsonb NOT NULL,
    generation bigint NOT NULL,
    touched bytea
);
CREATE TABLE sparklake.expired_commits (
    repository_uid text NOT NULL COLLATE pg_catalog."C",
    commit_id text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE sparklake.hook_runs (
    sequence bigint NOT NULL,
    repository_uid text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    event text NOT NULL,
    ref text NOT NULL COLLATE pg_catalog."C",
    commit_id text COLLATE pg_catalog."C",
    who text NOT NULL,
    date bigint NOT NULL,
    status text NOT NULL,
    hooks jsonb NOT NULL,
    CONSTRAINT hook_runs_status_check CHECK ((status = ANY (ARRAY['passed'::text, 'failed'::text, 'skipped'::text])))
);
ALTER TABLE sparklake.hook_runs ALTER COLUMN sequence ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME sparklake.hook_runs_sequence_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE sparklake.lake (
    one boolean DEFAULT true NOT NULL,
    id uuid DEFAULT gen_random_uuid() NOT NULL,
    CONSTRAINT lake_one_check CHECK (one)
);
CREATE TABLE sparklake.layers (
    id bigint NOT NULL,
    repository_uid text NOT NULL COLLATE pg_catalog."C",
    branch text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL,
    sealed boolean NOT NULL,
    meta_range_id text COLLATE pg_catalog."C",
    CONSTRAINT layers_check CHECK (((kind = 'run'::text) = (meta_range_id IS NOT NULL))),
    CONSTRAINT layers_check1 CHECK (((kind = 'rows'::text) OR sealed)),
    CONSTRAINT layers_kind_check CHECK ((kind = ANY (ARRAY['rows'::text, 'run'::text])))
);
ALTER TABLE sparklake.layers ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME sparklake.layers_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE sparklake.operations (
    sequence bigint NOT NULL,
    repository_uid text NOT NULL COLLATE pg_catalog."C",
    date timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    who text NOT NULL,
    verb text NOT NULL,
    ref text NOT NULL COLLATE pg_catalog."C",
    from_commit text COLLATE pg_catalog."C",
    to_commit text COLLATE pg_catalog."C"
);
ALTER TABLE sparklake.operations ALTER COLUMN sequence ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME sparklake.operations_sequence_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE sparklake.purges (
    sequence bigint NOT NULL,
    repository_uid text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    who text NOT NULL,
    date bigint NOT NULL,
    message text NOT NULL,
    patterns jsonb NOT NULL,
    state text NOT NULL,
    counts jsonb NOT NULL,
    even_shared boolean NOT NULL,
    also_external boolean NOT NULL,
    CONSTRAINT purges_state_check CHECK ((state = ANY (ARRAY['deleting'::text, 'done'::text])))
);
ALTER TABLE sparklake.purges ALTER COLUMN sequence ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME sparklake.purges_sequence_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE sparklake.repositories (
    uid text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    storage_namespace text NOT NULL COLLATE pg_catalog."C",
    default_branch text NOT NULL COLLATE pg_catalog."C",
    creation_date bigint NOT NULL,
    read_only boolean DEFAULT false NOT NULL,
    protection jsonb DEFAULT '{}'::jsonb NOT NULL,
    metadata jsonb DEFAULT '{}'::jsonb NOT NULL,
    fence bigint DEFAULT 0 NOT NULL,
    retention jsonb
);
CREATE TABLE sparklake.schema_migrations (
    version integer NOT NULL,
    name text NOT NULL,
    applied timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE sparklake.settings (
    repository_uid text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    value jsonb NOT NULL
);
CREATE TABLE sparklake.staged_rows (
    layer_id bigint NOT NULL,
    key bytea NOT NULL,
    value bytea NOT NULL
);
CREATE TABLE sparklake.tags (
    repository_uid text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    commit_id text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE sparklake.writes (
    repository_uid text NOT NULL COLLATE pg_catalog."C",
    id text NOT NULL COLLATE pg_catalog."C",
    place text NOT NULL COLLATE pg_catalog."C",
    branch text NOT NULL COLLATE pg_catalog."C",
    who text NOT NULL,
    started_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    state text DEFAULT 'open'::text NOT NULL,
    CONSTRAINT writes_state_check CHECK ((state = ANY (ARRAY['open'::text, 'done'::text, 'abandoned'::text])))
);
INSERT INTO sparklake.branches VALUES ('0facb0af438142fc9338c2a1fd97d517', 'dev', 'f65143c8c13ee6cc30a6ec165d0735586ea1a003ad35aedda8310a167aaac348', false, NULL, false, '{}', 0);
INSERT INTO sparklake.branches VALUES ('0facb0af438142fc9338c2a1fd97d517', 'main', '91cf1141e25935890a61f1d607a5f1729e9a8ce95ffc3feb58bd602774b917d7', false, NULL, false, '{}', 0);
INSERT INTO sparklake.branches VALUES ('0facb0af438142fc9338c2a1fd97d517', 'topic', 'f0c6274c6c4fa494d1c2a2927c8de6127d9893809fff11532da3d80c80095d73', false, NULL, false, '{}', 0);
INSERT INTO sparklake.commits VALUES ('0facb0af438142fc9338c2a1fd97d517', 'e47f6d54a6a725c20b62b7e5956983bfd08af7899ebafeed2efb973a920ccc61', '{}', '', 'Repository created', 1795378082, '', '{}', 1, NULL);
INSERT INTO sparklake.commits VALUES ('0facb0af438142fc9338c2a1fd97d517', 'a69a6942a2eba959b36a04ce30df422b91c36407f0ef2721dc2f85e54188a60e', '{e47f6d54a6a725c20b62b7e5956983bfd08af7899ebafeed2efb973a920ccc61}', 'tester', 'Load data', 1795378091, '6a83832fd4be2ad58e385cc83214ca87931f013c3373911f0a693642354fa308', '{"run": "1"}', 2, '\x9301c50158accbc63aeb733e01470c90fa8e710509e3b0c44298fc1c14d175dae942e78f1a9904c67c525847205558b7207740e724284bcce817d00025217aa6e13214162a5c670562040e812b13909c355294dc2f99038ffa11b8ef2f6cc8d29769c75330f4c1786c91f7b8435a8507ed24b747526e1435e918162b59a1bc6c4abc66905da451b6e6885be45ddbef718f7554b66ed1b93b19ec6004753c9f6ddb163992760a3f06635a1ff576e0b4f3012cb32a86e3120898612c9788b4ac6c3018e04189d255beb83fb28089d26936ff6c40d891762ab85d0a7e6c9e328dc48e43b166a11a437e320122c5a4ced7b41d3e1a09a62eabc4eb5000afaa55cb1fe170c549ac72d316b6805dbab520f307d3aa3451b88992f5bbe6398dbb6ec9dce06907abc0d1aeefff94bf9fca978d65fc87ce64d0c75234e310f474d08ffa05606176e8d52b168f53c85d13f5b58e878d062944fa91c173525465f6ff90');
INSERT INTO sparklake.commits VALUES ('0facb0af438142fc9338c2a1fd97d517', 'f65143c8c13ee6cc30a6ec165d0735586ea1a003ad35aedda8310a167aaac348', '{a69a6942a2eba959b36a04ce30df422b91c36407f0ef2721dc2f85e54188a60e}', 'tester', 'Change on dev', 1795378091, '27072aa13158603d2baf73e30c81015f3bd6fe8f0376b38488b8dbe758b91066', '{}', 3, '\x9301c420e3b0c44298fc1c14a1bc6c4abc66905da451b6e6885be45de3120898612c978890');
INSERT INTO sparklake.commits VALUES ('0facb0af438142fc9338c2a1fd97d517', '5265daa82816edcdbc364cf6ccdf42730334b753f738ffc552297d8cba42f283', '{a69a6942a2eba959b36a04ce30df422b91c36407f0ef2721dc2f85e54188a60e}', 'tester', 'Change on main', 1795378091, 'b9f849904a49ad68834a3845541da3966287c01f6f69218ce52c393d059b24e1', '{}', 3, '\x9301c418e3b0c44298fc1c14217aa6e13214162aa451b6e6885be45d90');
INSERT INTO sparklake.commits VALUES ('0facb0af438142fc9338c2a1fd97d517', '875855d117cf359be29684dd41a601fde1b55b396eb20d62b3ee3c0e429b8f0b', '{5265daa82816edcdbc364cf6ccdf42730334b753f738ffc552297d8cba42f283,f65143c8c13ee6cc30a6ec165d0735586ea1a003ad35aedda8310a167aaac348}', 'tester', 'Merge ''dev'' into ''main''', 1795378091, 'e3cc7417d66239c3d58e2b4c93459be8995f5f33e40cfb9a416f13f48bfaae9a', '{".lakefs.merge.strategy": "default"}', 4, '\x9301c420e3b0c44298fc1c14a1bc6c4abc66905da451b6e6885be45de3120898612c978890');
INSERT INTO sparklake.commits VALUES ('0facb0af438142fc9338c2a1fd97d517', '91cf1141e25935890a61f1d607a5f1729e9a8ce95ffc3feb58bd602774b917d7', '{875855d117cf359be29684dd41a601fde1b55b396eb20d62b3ee3c0e429b8f0b}', 'tester', 'Revert Change on main

This reverts commit 5265daa82816edcdbc364cf6ccdf42730334b753f738ffc552297d8cba42f283.', 1795378092, '27072aa13158603d2baf73e30c81015f3bd6fe8f0376b38488b8dbe758b91066', '{}', 5, '\x9301c418e3b0c44298fc1c14217aa6e13214162aa451b6e6885be45d90');
INSERT INTO sparklake.commits VALUES ('0facb0af438142fc9338c2a1fd97d517', 'f0c6274c6c4fa494d1c2a2927c8de6127d9893809fff11532da3d80c80095d73', '{a69a6942a2eba959b36a04ce30df422b91c36407f0ef2721dc2f85e54188a60e}', 'tester', 'Add on topic', 1795378092, 'af8824ef15a97bcfb453697d599b1b35baccb31956476664d0af07e0d4c5a0d4', '{}', 3, '\x9301c418e3b0c44298fc1c1425dc76f74e88ed2ed62a04f1bd0718bf90');
INSERT INTO sparklake.lake VALUES (true, 'a166c55e-fd87-4b77-8a6f-e19fa96ebef8');
INSERT INTO sparklake.layers OVERRIDING SYSTEM VALUE VALUES (5, '0facb0af438142fc9338c2a1fd97d517', 'topic', 'rows', false, NULL);
INSERT INTO sparklake.operations OVERRIDING SYSTEM VALUE VALUES (1, '0facb0af438142fc9338c2a1fd97d517', '2026-11-22 20:08:03.098413+00', 'tester', 'create-repository', 'main', NULL, 'e47f6d54a6a725c20b62b7e5956983bfd08af7899ebafeed2efb973a920ccc61');
INSERT INTO sparklake.operations OVERRIDING SYSTEM VALUE VALUES (2, '0facb0af438142fc9338c2a1fd97d517', '2026-11-22 20:08:11.499444+00', 'tester', 'commit', 'main', 'e47f6d54a6a725c20b62b7e5956983bfd08af7899ebafeed2efb973a920ccc61', 'a69a6942a2eba959b36a04ce30df422b91c36407f0ef2721dc2f85e54188a60e');
INSERT INTO sparklake.operations OVERRIDING SYSTEM VALUE VALUES (3, '0facb0af438142fc9338c2a1fd97d517', '2026-11-22 20:08:11.513461+00', 'tester', 'create-tag', 'v1', NULL, 'a69a6942a2eba959b36a04ce30df422b91c36407f0ef2721dc2f85e54188a60e');
INSERT INTO sparklake.operations OVERRIDING SYSTEM VALUE VALUES (4, '0facb0af438142fc9338c2a1fd97d517', '2026-11-22 20:08:11.549804+00', 'tester', 'create-branch', 'dev', NULL, 'a69a6942a2eba959b36a04ce30df422b91c36407f0ef2721dc2f85e54188a60e');
INSERT INTO sparklake.operations OVERRIDING SYSTEM VALUE VALUES (5, '0facb0af438142fc9338c2a1fd97d517', '2026-11-22 20:08:11.622974+00', 'tester', 'commit', 'dev', 'a69a6942a2eba959b36a04ce30df422b91c36407f0ef2721dc2f85e54188a60e', 'f65143c8c13ee6cc30a6ec165d0735586ea1a003ad35aedda8310a167aaac348');
INSERT INTO sparklake.operations OVERRIDING SYSTEM VALUE VALUES (6, '0facb0af438142fc9338c2a1fd97d517', '2026-11-22 20:08:11.749878+00', 'tester', 'commit', 'main', 'a69a6942a2eba959b36a04ce30df422b91c36407f0ef2721dc2f85e54188a60e', '5265daa82816edcdbc364cf6ccdf42730334b753f738ffc552297d8cba42f283');
INSERT INTO sparklake.operations OVERRIDING SYSTEM VALUE VALUES (7, '0facb0af438142fc9338c2a1fd97d517', '2026-11-22 20:08:11.961251+00', 'tester', 'merge', 'main', '5265daa82816edcdbc364cf6ccdf42730334b753f738ffc552297d8cba42f283', '875855d117cf359be29684dd41a601fde1b55b396eb20d62b3ee3c0e429b8f0b');
INSERT INTO sparklake.operations OVERRIDING SYSTEM VALUE VALUES (8, '0facb0af438142fc9338c2a1fd97d517', '2026-11-22 20:08:12.118706+00', 'tester', 'revert', 'main', '875855d117cf359be29684dd41a601fde1b55b396eb20d62b3ee3c0e429b8f0b', '91cf1141e25935890a61f1d607a5f1729e9a8ce95ffc3feb58bd602774b917d7');
INSERT INTO sparklake.operations OVERRIDING SYSTEM VALUE VALUES (9, '0facb0af438142fc9338c2a1fd97d517', '2026-11-22 20:08:12.16008+00', 'tester', 'create-branch', 'topic', NULL, 'a69a6942a2eba959b36a04ce30df422b91c36407f0ef2721dc2f85e54188a60e');
INSERT INTO sparklake.operations OVERRIDING SYSTEM VALUE VALUES (10, '0facb0af438142fc9338c2a1fd97d517', '2026-11-22 20:08:12.367846+00', 'tester', 'commit', 'topic', 'a69a6942a2eba959b36a04ce30df422b91c36407f0ef2721dc2f85e54188a60e', 'f0c6274c6c4fa494d1c2a2927c8de6127d9893809fff11532da3d80c80095d73');
INSERT INTO sparklake.repositories VALUES ('0facb0af438142fc9338c2a1fd97d517', 'lake', 'file:///an-old-namespace', 'main', 1795378082, false, '{}', '{}', 0, NULL);
INSERT INTO sparklake.schema_migrations VALUES (1, '001_refs', '2026-11-22 20:08:02.537186+00');
INSERT INTO sparklake.schema_migrations VALUES (2, '002_lake_id', '2026-11-22 20:08:02.537186+00');
INSERT INTO sparklake.schema_migrations VALUES (3, '003_touched', '2026-11-22 20:08:02.537186+00');
INSERT INTO sparklake.schema_migrations VALUES (4, '004_guards', '2026-11-22 20:08:02.537186+00');
INSERT INTO sparklake.schema_migrations VALUES (5, '005_hook_runs', '2026-11-22 20:08:02.537186+00');
INSERT INTO sparklake.schema_migrations VALUES (6, '006_writes', '2026-11-22 20:08:02.537186+00');
INSERT INTO sparklake.schema_migrations VALUES (7, '007_fences', '2026-11-22 20:08:02.537186+00');
INSERT INTO sparklake.schema_migrations VALUES (8, '008_purges', '2026-11-22 20:08:02.537186+00');
INSERT INTO sparklake.schema_migrations VALUES (9, '009_retention', '2026-11-22 20:08:02.537186+00');
INSERT INTO sparklake.settings VALUES ('0facb0af438142fc9338c2a1fd97d517', 'range_records', '8');
INSERT INTO sparklake.staged_rows VALUES (5, '\x6e65772f62', '\x409125f677f561eeb27c33187d7b9e106521eeac4a3b6527cb4437566251204c78ea010a25646174612f3765666231636232663432633437643838373764636439386539653266393363120c08ac978dd80610a996f8b10118062220643962643661393036633138373466663537326433376561623330356332666330013a186170706c69636174696f6e2f6f637465742d73747265616d0c3577113ede62ef7e7d8f3df5700a11fbc6452a0d5de99f05f6919d61f4d925');
INSERT INTO sparklake.staged_rows VALUES (5, '\x646174612f303031', '\x000098c13ec1312a11c18566bb01685fd99a125334d5b34ece6168ecdb8b1f8b9fe2');
INSERT INTO sparklake.tags VALUES ('0facb0af438142fc9338c2a1fd97d517', 'v1', 'a69a6942a2eba959b36a04ce30df422b91c36407f0ef2721dc2f85e54188a60e');
SELECT pg_catalog.setval('sparklake.hook_runs_sequence_seq', 1, false);
SELECT pg_catalog.setval('sparklake.layers_id_seq', 5, true);
SELECT pg_catalog.setval('sparklake.operations_sequence_seq', 10, true);
SELECT pg_catalog.setval('sparklake.purges_sequence_seq', 1, false);
ALTER TABLE ONLY sparklake.branches
    ADD CONSTRAINT branches_pkey PRIMARY KEY (repository_uid, name);
ALTER TABLE ONLY sparklake.commits
    ADD CONSTRAINT commits_pkey PRIMARY KEY (repository_uid, id);
ALTER TABLE ONLY sparklake.expired_commits
    ADD CONSTRAINT expired_commits_pkey PRIMARY KEY (repository_uid, commit_id);
ALTER TABLE ONLY sparklake.hook_runs
    ADD CONSTRAINT hook_runs_id_key UNIQUE (id);
ALTER TABLE ONLY sparklake.hook_runs
    ADD CONSTRAINT hook_runs_pkey PRIMARY KEY (sequence);
ALTER TABLE ONLY sparklake.lake
    ADD CONSTRAINT lake_pkey PRIMARY KEY (one);
ALTER TABLE ONLY sparklake.layers
    ADD CONSTRAINT layers_pkey PRIMARY KEY (id);
ALTER TABLE ONLY sparklake.operations
    ADD CONSTRAINT operations_pkey PRIMARY KEY (sequence);
ALTER TABLE ONLY sparklake.purges
    ADD CONSTRAINT purges_id_key UNIQUE (id);
ALTER TABLE ONLY sparklake.purges
    ADD CONSTRAINT purges_pkey PRIMARY KEY (sequence);
ALTER TABLE ONLY sparklake.repositories
    ADD CONSTRAINT repositories_name_key UNIQUE (name);
ALTER TABLE ONLY sparklake.repositories
    ADD CONSTRAINT repositories_pkey PRIMARY KEY (uid);
ALTER TABLE ONLY sparklake.schema_migrations
    ADD CONSTRAINT schema_migrations_pkey PRIMARY KEY (version);
ALTER TABLE ONLY sparklake.settings
    ADD CONSTRAINT settings_pkey PRIMARY KEY (repository_uid, name);
ALTER TABLE ONLY sparklake.staged_rows
    ADD CONSTRAINT staged_rows_pkey PRIMARY KEY (layer_id, key);
ALTER TABLE ONLY sparklake.tags
    ADD CONSTRAINT tags_pkey PRIMARY KEY (repository_uid, name);
ALTER TABLE ONLY sparklake.writes
    ADD CONSTRAINT writes_pkey PRIMARY KEY (repository_uid, id);
CREATE INDEX hook_runs_of_repository ON sparklake.hook_runs USING btree (repository_uid, sequence);
CREATE INDEX layers_of_branch ON sparklake.layers USING btree (repository_uid, branch, id);
CREATE UNIQUE INDEX open_layer_of_branch ON sparklake.layers USING btree (repository_uid, branch) WHERE (NOT sealed);
CREATE INDEX operations_of_repository ON sparklake.operations USING btree (repository_uid, sequence);
CREATE INDEX purges_of_repository ON sparklake.purges USING btree (repository_uid, sequence);
CREATE INDEX writes_not_done ON sparklake.writes USING btree (repository_uid, started_at, id) WHERE (state <> 'done'::text);
CREATE TRIGGER only_grows BEFORE DELETE OR UPDATE OR TRUNCATE ON sparklake.operations FOR EACH STATEMENT EXECUTE FUNCTION sparklake.refuse_change();
ALTER TABLE ONLY sparklake.branches
    ADD CONSTRAINT branches_repository_uid_commit_id_fkey FOREIGN KEY (repository_uid, commit_id) REFERENCES sparklake.commits(repository_uid, id);
ALTER TABLE ONLY sparklake.branches
    ADD CONSTRAINT branches_repository_uid_fkey FOREIGN KEY (repository_uid) REFERENCES sparklake.repositories(uid) ON DELETE CASCADE;
ALTER TABLE ONLY sparklake.commits
    ADD CONSTRAINT commits_repository_uid_fkey FOREIGN KEY (repository_uid) REFERENCES sparklake.repositories(uid) ON DELETE CASCADE;
ALTER TABLE ONLY sparklake.expired_commits
    ADD CONSTRAINT expired_commits_repository_uid_commit_id_fkey FOREIGN KEY (repository_uid, commit_id) REFERENCES sparklake.commits(repository_uid, id) ON DELETE CASCADE;
ALTER TABLE ONLY sparklake.hook_runs
    ADD CONSTRAINT hook_runs_repository_uid_fkey FOREIGN KEY (repository_uid) REFERENCES sparklake.repositories(uid) ON DELETE CASCADE;
ALTER TABLE ONLY sparklake.layers
    ADD CONSTRAINT layers_repository_uid_branch_fkey FOREIGN KEY (repository_uid, branch) REFERENCES sparklake.branches(repository_uid, name);
ALTER TABLE ONLY sparklake.purges
    ADD CONSTRAINT purges_repository_uid_fkey FOREIGN KEY (repository_uid) REFERENCES sparklake.repositories(uid) ON DELETE CASCADE;
ALTER TABLE ONLY sparklake.settings
    ADD CONSTRAINT settings_repository_uid_fkey FOREIGN KEY (repository_uid) REFERENCES sparklake.repositories(uid) ON DELETE CASCADE;
ALTER TABLE ONLY sparklake.tags
    ADD CONSTRAINT tags_repository_uid_commit_id_fkey FOREIGN KEY (repository_uid, commit_id) REFERENCES sparklake.commits(repository_uid, id);
ALTER TABLE ONLY sparklake.tags
    ADD CONSTRAINT tags_repository_uid_fkey FOREIGN KEY (repository_uid) REFERENCES sparklake.repositories(uid) ON DELETE CASCADE;
ALTER TABLE ONLY sparklake.writes
    ADD CONSTRAINT writes_repository_uid_fkey FOREIGN KEY (repository_uid) REFERENCES sparklake.repositories(uid) ON DELETE CASCADE;
