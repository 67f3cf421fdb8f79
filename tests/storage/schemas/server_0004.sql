BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('server_0004');
CREATE TABLE devices (
	device_id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	owner_speaker_id TEXT, 
	created_at DATETIME NOT NULL, 
	last_seen_at DATETIME NOT NULL, 
	revoked_at DATETIME, 
	CONSTRAINT pk_devices PRIMARY KEY (device_id), 
	CONSTRAINT ck_devices_kind CHECK (kind IN ('robot', 'web', 'cli', 'unknown')), 
	CONSTRAINT fk_devices_owner_speaker_id FOREIGN KEY(owner_speaker_id) REFERENCES speakers (speaker_id)
);
INSERT INTO "devices" VALUES('desk','机のスタックチャン','robot',NULL,'2026-11-30 12:00:00.250000','2026-11-30 12:00:00.250000',NULL);
CREATE TABLE house (
	house_id TEXT NOT NULL, 
	CONSTRAINT pk_house PRIMARY KEY (house_id)
);
INSERT INTO "house" VALUES('0123456789abcdef0123456789abcdef');
CREATE TABLE id_counters (
	name TEXT NOT NULL, 
	next_id INTEGER NOT NULL, 
	CONSTRAINT pk_id_counters PRIMARY KEY (name)
);
INSERT INTO "id_counters" VALUES('turn',49);
INSERT INTO "id_counters" VALUES('source_turn',113);
CREATE TABLE speakers (
	speaker_id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	created_at DATETIME NOT NULL, 
	CONSTRAINT pk_speakers PRIMARY KEY (speaker_id)
);
CREATE TABLE timers (
	timer_id INTEGER NOT NULL, 
	device_id TEXT NOT NULL, 
	label TEXT NOT NULL, 
	language TEXT NOT NULL, 
	duration_seconds INTEGER NOT NULL, 
	set_at DATETIME NOT NULL, 
	due_at DATETIME NOT NULL, 
	CONSTRAINT pk_timers PRIMARY KEY (timer_id), 
	CONSTRAINT ck_timers_some_time CHECK (duration_seconds > 0), 
	CONSTRAINT fk_timers_device_id FOREIGN KEY(device_id) REFERENCES devices (device_id)
);
INSERT INTO "timers" VALUES(3,'desk','ラーメン','ja',180,'2026-11-30 12:00:00.250000','2026-11-30 12:03:00.250000');
CREATE INDEX ix_timers_device_id_due_at ON timers (device_id, due_at);
CREATE TABLE tokens (
	token_id TEXT NOT NULL, 
	token_hash TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	device_id TEXT, 
	created_at DATETIME NOT NULL, 
	revoked_at DATETIME, 
	CONSTRAINT pk_tokens PRIMARY KEY (token_id), 
	CONSTRAINT ck_tokens_kind CHECK (kind IN ('owner', 'device')), 
	CONSTRAINT uq_tokens_token_hash UNIQUE (token_hash), 
	CONSTRAINT fk_tokens_device_id FOREIGN KEY(device_id) REFERENCES devices (device_id)
);
CREATE INDEX ix_tokens_device_id ON tokens (device_id);
CREATE TABLE tombstones (
	tombstone_id INTEGER NOT NULL, 
	memory_id TEXT, 
	source_turn_id INTEGER, 
	blanked BOOLEAN NOT NULL, 
	forgotten_at DATETIME NOT NULL, 
	CONSTRAINT pk_tombstones PRIMARY KEY (tombstone_id), 
	CONSTRAINT ck_tombstones_one_id CHECK ((memory_id IS NULL) <> (source_turn_id IS NULL)), 
	CONSTRAINT uq_tombstones_memory_id UNIQUE (memory_id), 
	CONSTRAINT uq_tombstones_source_turn_id UNIQUE (source_turn_id)
);
INSERT INTO "tombstones" VALUES(1,NULL,97,1,'2026-11-30 12:00:00.250000');
COMMIT;
