BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('session_0003');
CREATE TABLE channels (
	channel_id TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	private BOOLEAN NOT NULL, 
	parent_channel_id TEXT, 
	created_at DATETIME NOT NULL, 
	CONSTRAINT pk_channels PRIMARY KEY (channel_id), 
	CONSTRAINT ck_channels_kind CHECK (kind IN ('stackchan', 'web', 'pool')), 
	CONSTRAINT fk_channels_parent_channel_id FOREIGN KEY(parent_channel_id) REFERENCES channels (channel_id)
);
INSERT INTO "channels" VALUES('stackchan:desk','stackchan',0,NULL,'2026-11-30 12:00:00.250000');
INSERT INTO "channels" VALUES('stackchan:bedroom','stackchan',1,NULL,'2026-12-01 09:30:00.000000');
INSERT INTO "channels" VALUES('stackchan:study','stackchan',0,NULL,'2026-12-01 09:30:00.000000');
CREATE TABLE sessions (
	session_id TEXT NOT NULL, 
	channel_id TEXT NOT NULL, 
	device_id TEXT, 
	label TEXT, 
	opened_at DATETIME NOT NULL, 
	last_active_at DATETIME NOT NULL, 
	closed_at DATETIME, 
	close_reason TEXT, 
	CONSTRAINT pk_sessions PRIMARY KEY (session_id), 
	CONSTRAINT ck_sessions_close_reason CHECK (close_reason IN ('idle', 'requested', 'replaced')), 
	CONSTRAINT ck_sessions_closed_with_reason CHECK ((close_reason IS NOT NULL) = (closed_at IS NOT NULL)), 
	CONSTRAINT fk_sessions_channel_id FOREIGN KEY(channel_id) REFERENCES channels (channel_id)
);
INSERT INTO "sessions" VALUES('01KB9ZZZZZZZZZZZZZZZZZZZZZ','stackchan:desk','desk',NULL,'2026-11-30 12:00:00.250000','2026-11-30 12:00:00.250000',NULL,NULL);
INSERT INTO "sessions" VALUES('01KBB000000000000000000000','stackchan:bedroom','bedroom',NULL,'2026-12-01 09:30:00.000000','2026-12-01 09:30:00.000000',NULL,NULL);
INSERT INTO "sessions" VALUES('01KBB000000000000000000001','stackchan:study','study',NULL,'2026-12-01 09:30:00.000000','2026-12-01 09:30:00.000000',NULL,NULL);
CREATE TABLE source_turns (
	source_turn_id INTEGER NOT NULL, 
	turn_id INTEGER NOT NULL, 
	session_id TEXT NOT NULL, 
	channel_id TEXT NOT NULL, 
	role TEXT NOT NULL, 
	speaker_id TEXT, 
	text TEXT NOT NULL, 
	language TEXT NOT NULL, 
	visibility TEXT NOT NULL, 
	said_at DATETIME NOT NULL, 
	zone TEXT NOT NULL, 
	audio_duration_ms INTEGER, 
	interrupted BOOLEAN NOT NULL, 
	tool_calls JSON, 
	CONSTRAINT pk_source_turns PRIMARY KEY (source_turn_id), 
	CONSTRAINT ck_source_turns_role CHECK (role IN ('user', 'robot')), 
	CONSTRAINT ck_source_turns_visibility CHECK (visibility IN ('house', 'private')), 
	CONSTRAINT uq_source_turns_turn_id_role UNIQUE (turn_id, role), 
	CONSTRAINT fk_source_turns_turn_id FOREIGN KEY(turn_id) REFERENCES turns (turn_id), 
	CONSTRAINT fk_source_turns_session_id FOREIGN KEY(session_id) REFERENCES sessions (session_id), 
	CONSTRAINT fk_source_turns_channel_id FOREIGN KEY(channel_id) REFERENCES channels (channel_id)
);
INSERT INTO "source_turns" VALUES(97,41,'01KB9ZZZZZZZZZZZZZZZZZZZZZ','stackchan:desk','user',NULL,'左を見て','ja','house','2026-11-30 12:00:00.250000','Asia/Tokyo',900,0,NULL);
INSERT INTO "source_turns" VALUES(98,41,'01KB9ZZZZZZZZZZZZZZZZZZZZZ','stackchan:desk','robot',NULL,'見たよ。👀','ja','house','2026-11-30 12:00:00.250000','Asia/Tokyo',800,0,NULL);
INSERT INTO "source_turns" VALUES(99,42,'01KB9ZZZZZZZZZZZZZZZZZZZZZ','stackchan:desk','user',NULL,'富士通のパソコンを30,000円で買ったよ','ja','house','2026-12-01 09:30:00.000000','Asia/Tokyo',900,0,NULL);
INSERT INTO "source_turns" VALUES(100,42,'01KB9ZZZZZZZZZZZZZZZZZZZZZ','stackchan:desk','robot',NULL,'いい買い物だね。','ja','house','2026-12-01 09:30:00.000000','Asia/Tokyo',900,0,NULL);
INSERT INTO "source_turns" VALUES(101,43,'01KBB000000000000000000000','stackchan:bedroom','user','spk_mika','Please keep my diary a secret.','en','private','2026-12-01 09:30:00.000000','Asia/Tokyo',900,0,NULL);
INSERT INTO "source_turns" VALUES(102,43,'01KBB000000000000000000000','stackchan:bedroom','robot',NULL,'I will.','en','private','2026-12-01 09:30:00.000000','Asia/Tokyo',900,0,NULL);
CREATE TABLE turn_traces (
	turn_id INTEGER NOT NULL, 
	trace JSON NOT NULL, 
	CONSTRAINT pk_turn_traces PRIMARY KEY (turn_id), 
	CONSTRAINT fk_turn_traces_turn_id FOREIGN KEY(turn_id) REFERENCES turns (turn_id)
);
INSERT INTO "turn_traces" VALUES(41,'{"stages":[{"name":"asr","ms":310}]}');
CREATE TABLE turns (
	turn_id INTEGER NOT NULL, 
	session_id TEXT NOT NULL, 
	channel_id TEXT NOT NULL, 
	device_id TEXT, 
	status TEXT NOT NULL, 
	outcome TEXT, 
	input_kind TEXT NOT NULL, 
	idempotency_key TEXT, 
	transcript TEXT, 
	language TEXT, 
	reply TEXT, 
	emotion TEXT, 
	action TEXT, 
	error_code TEXT, 
	error_message TEXT, 
	audio_duration_ms INTEGER, 
	speech_duration_ms INTEGER, 
	persona_id TEXT NOT NULL, 
	started_at DATETIME NOT NULL, 
	ended_at DATETIME, 
	latency JSON, 
	memory JSON, request_digest TEXT, 
	CONSTRAINT pk_turns PRIMARY KEY (turn_id), 
	CONSTRAINT ck_turns_status CHECK (status IN ('queued', 'running', 'done', 'failed')), 
	CONSTRAINT ck_turns_outcome CHECK (outcome IN ('ok', 'no_speech', 'failed', 'interrupted')), 
	CONSTRAINT ck_turns_input_kind CHECK (input_kind IN ('audio', 'text')), 
	CONSTRAINT ck_turns_ended CHECK ((status IN ('done', 'failed')) = (ended_at IS NOT NULL)), 
	CONSTRAINT ck_turns_outcome_when_ended CHECK ((outcome IS NOT NULL) = (ended_at IS NOT NULL)), 
	CONSTRAINT uq_turns_channel_id_idempotency_key UNIQUE (channel_id, idempotency_key), 
	CONSTRAINT fk_turns_session_id FOREIGN KEY(session_id) REFERENCES sessions (session_id), 
	CONSTRAINT fk_turns_channel_id FOREIGN KEY(channel_id) REFERENCES channels (channel_id)
);
INSERT INTO "turns" VALUES(41,'01KB9ZZZZZZZZZZZZZZZZZZZZZ','stackchan:desk','desk','done','ok','audio','8e03978e-40d5-43dd-bc93-6894a57f9324','左を見て','ja','見たよ。👀','happy','look_left',NULL,NULL,900,800,'stackchan','2026-11-30 12:00:00.250000','2026-11-30 12:00:03.250000','{"asr_ms":310}',NULL,'abababababababababababababababababababababababababababababababab');
INSERT INTO "turns" VALUES(42,'01KB9ZZZZZZZZZZZZZZZZZZZZZ','stackchan:desk','desk','done','ok','audio',NULL,'富士通のパソコンを30,000円で買ったよ','ja','いい買い物だね。',NULL,NULL,NULL,NULL,NULL,NULL,'stackchan','2026-12-01 09:30:00.000000','2026-12-01 09:30:00.000000',NULL,NULL,NULL);
INSERT INTO "turns" VALUES(43,'01KBB000000000000000000000','stackchan:bedroom','bedroom','done','ok','audio','k1','Please keep my diary a secret.','en','I will.',NULL,NULL,NULL,NULL,NULL,NULL,'stackchan','2026-12-01 09:30:00.000000','2026-12-01 09:30:00.000000',NULL,NULL,'dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd');
INSERT INTO "turns" VALUES(44,'01KBB000000000000000000001','stackchan:study','study','done','no_speech','audio',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'stackchan','2026-12-01 09:30:00.000000','2026-12-01 09:30:00.000000',NULL,NULL,NULL);
CREATE TABLE recall_items (
	item_id INTEGER NOT NULL, 
	memory_id TEXT NOT NULL, 
	topic TEXT NOT NULL, 
	summary TEXT NOT NULL, 
	entities JSON NOT NULL, 
	memory_type TEXT NOT NULL, 
	occurred_at DATETIME NOT NULL, 
	zone TEXT NOT NULL, 
	status TEXT NOT NULL, 
	superseded_by TEXT, 
	language TEXT NOT NULL, 
	speakers JSON NOT NULL, 
	confidence TEXT NOT NULL, 
	importance INTEGER NOT NULL, 
	persona_id TEXT NOT NULL, 
	channel_id TEXT NOT NULL, 
	visibility TEXT NOT NULL, 
	index_state TEXT NOT NULL, 
	revision INTEGER NOT NULL, 
	attempts INTEGER NOT NULL, 
	error TEXT, 
	created_at DATETIME NOT NULL, 
	updated_at DATETIME NOT NULL, 
	CONSTRAINT pk_recall_items PRIMARY KEY (item_id), 
	CONSTRAINT uq_recall_items_memory_id UNIQUE (memory_id), 
	CONSTRAINT ck_recall_items_memory_type CHECK (memory_type IN ('episode', 'preference', 'decision', 'fact')), 
	CONSTRAINT ck_recall_items_status CHECK (status IN ('active', 'superseded', 'forgotten')), 
	CONSTRAINT ck_recall_items_confidence CHECK (confidence IN ('said', 'inferred')), 
	CONSTRAINT ck_recall_items_visibility CHECK (visibility IN ('house', 'private')), 
	CONSTRAINT ck_recall_items_index_state CHECK (index_state IN ('pending', 'indexed', 'failed')), 
	CONSTRAINT ck_recall_items_importance CHECK (importance BETWEEN 1 AND 5), 
	CONSTRAINT fk_recall_items_superseded_by FOREIGN KEY(superseded_by) REFERENCES recall_items (memory_id), 
	CONSTRAINT fk_recall_items_channel_id FOREIGN KEY(channel_id) REFERENCES channels (channel_id)
);
INSERT INTO "recall_items" VALUES(1,'mem_01KBB00000000000000000000A','富士通','富士通のパソコンを買ったよ。','["富士通"]','episode','2026-12-01 09:40:00.000000','Asia/Tokyo','active',NULL,'ja','[]','said',3,'stackchan','stackchan:study','house','pending',1,0,NULL,'2026-12-01 09:40:00.000000','2026-12-01 09:40:00.000000');
CREATE TABLE recall_sources (
	memory_id TEXT NOT NULL, 
	source_turn_id INTEGER NOT NULL, 
	CONSTRAINT pk_recall_sources PRIMARY KEY (memory_id, source_turn_id), 
	CONSTRAINT fk_recall_sources_memory_id FOREIGN KEY(memory_id) REFERENCES recall_items (memory_id), 
	CONSTRAINT fk_recall_sources_source_turn_id FOREIGN KEY(source_turn_id) REFERENCES source_turns (source_turn_id)
);
INSERT INTO "recall_sources" VALUES('mem_01KBB00000000000000000000A',99);
CREATE TABLE recall_entities (
	memory_id TEXT NOT NULL, 
	entity_key TEXT NOT NULL, 
	CONSTRAINT pk_recall_entities PRIMARY KEY (memory_id, entity_key), 
	CONSTRAINT fk_recall_entities_memory_id FOREIGN KEY(memory_id) REFERENCES recall_items (memory_id)
);
INSERT INTO "recall_entities" VALUES('mem_01KBB00000000000000000000A','富士通');
CREATE TABLE recall_speakers (
	memory_id TEXT NOT NULL, 
	speaker_id TEXT NOT NULL, 
	CONSTRAINT pk_recall_speakers PRIMARY KEY (memory_id, speaker_id), 
	CONSTRAINT fk_recall_speakers_memory_id FOREIGN KEY(memory_id) REFERENCES recall_items (memory_id)
);
CREATE TABLE jobs (
	job_id INTEGER NOT NULL, 
	kind TEXT NOT NULL, 
	subject TEXT NOT NULL, 
	payload JSON, 
	state TEXT NOT NULL, 
	requests INTEGER NOT NULL, 
	attempts INTEGER NOT NULL, 
	not_before DATETIME NOT NULL, 
	lease_until DATETIME, 
	lease_owner TEXT, 
	error TEXT, 
	created_at DATETIME NOT NULL, 
	CONSTRAINT pk_jobs PRIMARY KEY (job_id), 
	CONSTRAINT uq_jobs_kind_subject UNIQUE (kind, subject), 
	CONSTRAINT ck_jobs_kind CHECK (kind IN ('ingest', 'index', 'unindex', 'scrub')), 
	CONSTRAINT ck_jobs_state CHECK (state IN ('queued', 'running', 'parked')), 
	CONSTRAINT ck_jobs_leased CHECK ((state = 'running') = (lease_owner IS NOT NULL)), 
	CONSTRAINT ck_jobs_leased_until CHECK ((lease_until IS NOT NULL) = (lease_owner IS NOT NULL))
);
INSERT INTO "jobs" VALUES(1,'ingest','01KB9ZZZZZZZZZZZZZZZZZZZZZ',NULL,'queued',1,0,'2026-11-30 12:00:00.250000',NULL,NULL,NULL,'2026-11-30 12:00:00.250000');
INSERT INTO "jobs" VALUES(2,'ingest','01KBB000000000000000000000',NULL,'queued',1,0,'2026-12-01 09:30:00.000000',NULL,NULL,NULL,'2026-12-01 09:30:00.000000');
CREATE TABLE segments (
	segment_id INTEGER NOT NULL, 
	session_id TEXT NOT NULL, 
	result TEXT NOT NULL, 
	closed_at DATETIME NOT NULL, 
	CONSTRAINT pk_segments PRIMARY KEY (segment_id), 
	CONSTRAINT ck_segments_result CHECK (result IN ('memories', 'filler', 'failed', 'forgotten')), 
	CONSTRAINT fk_segments_session_id FOREIGN KEY(session_id) REFERENCES sessions (session_id)
);
INSERT INTO "segments" VALUES(1,'01KB9ZZZZZZZZZZZZZZZZZZZZZ','memories','2026-12-01 09:40:00.000000');
INSERT INTO "segments" VALUES(2,'01KB9ZZZZZZZZZZZZZZZZZZZZZ','filler','2026-12-01 09:40:00.000000');
INSERT INTO "segments" VALUES(3,'01KBB000000000000000000000','failed','2026-12-01 09:40:00.000000');
CREATE TABLE segment_turns (
	turn_id INTEGER NOT NULL, 
	segment_id INTEGER NOT NULL, 
	CONSTRAINT pk_segment_turns PRIMARY KEY (turn_id), 
	CONSTRAINT fk_segment_turns_turn_id FOREIGN KEY(turn_id) REFERENCES turns (turn_id), 
	CONSTRAINT fk_segment_turns_segment_id FOREIGN KEY(segment_id) REFERENCES segments (segment_id)
);
INSERT INTO "segment_turns" VALUES(41,2);
INSERT INTO "segment_turns" VALUES(42,1);
INSERT INTO "segment_turns" VALUES(43,3);
CREATE VIRTUAL TABLE recall_words USING fts5(body, tokenize = "ascii tokenchars '.'");
INSERT INTO "recall_words" (rowid, body) VALUES(1,'富士通 士通');
CREATE VIRTUAL TABLE source_words USING fts5(body, tokenize = "ascii tokenchars '.'");
INSERT INTO "source_words" (rowid, body) VALUES(97,'左を を見 見て');
INSERT INTO "source_words" (rowid, body) VALUES(98,'見た たよ');
INSERT INTO "source_words" (rowid, body) VALUES(99,'富士 士通 通の のパ パソ ソコ コン ンを 30000 30000円 円で で買 買っ った たよ');
INSERT INTO "source_words" (rowid, body) VALUES(100,'いい い買 買い い物 物だ だね');
INSERT INTO "source_words" (rowid, body) VALUES(101,'please keep my diary a secret');
INSERT INTO "source_words" (rowid, body) VALUES(102,'i will');
CREATE UNIQUE INDEX uq_sessions_open_channel ON sessions (channel_id) WHERE closed_at IS NULL;
CREATE INDEX ix_sessions_channel_id_opened_at ON sessions (channel_id, opened_at);
CREATE INDEX ix_turns_status ON turns (status);
CREATE INDEX ix_turns_session_id_turn_id ON turns (session_id, turn_id);
CREATE INDEX ix_source_turns_session_id_source_turn_id ON source_turns (session_id, source_turn_id);
CREATE INDEX ix_recall_items_narrow ON recall_items (persona_id, status, occurred_at, memory_type, visibility, channel_id, memory_id);
CREATE INDEX ix_recall_items_unindexed ON recall_items (memory_id) WHERE index_state <> 'indexed';
CREATE INDEX ix_recall_items_superseded_by ON recall_items (superseded_by);
CREATE INDEX ix_recall_sources_source_turn_id ON recall_sources (source_turn_id);
CREATE INDEX ix_recall_entities_entity_key_memory_id ON recall_entities (entity_key, memory_id);
CREATE INDEX ix_recall_speakers_speaker_id_memory_id ON recall_speakers (speaker_id, memory_id);
CREATE INDEX ix_jobs_state_not_before ON jobs (state, not_before);
CREATE INDEX ix_jobs_lease_owner ON jobs (lease_owner) WHERE lease_owner IS NOT NULL;
CREATE INDEX ix_segments_session_id ON segments (session_id);
CREATE INDEX ix_segment_turns_segment_id ON segment_turns (segment_id);
COMMIT;
