BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('session_0002');
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
CREATE UNIQUE INDEX uq_sessions_open_channel ON sessions (channel_id) WHERE closed_at IS NULL;
CREATE INDEX ix_sessions_channel_id_opened_at ON sessions (channel_id, opened_at);
CREATE INDEX ix_turns_status ON turns (status);
CREATE INDEX ix_turns_session_id_turn_id ON turns (session_id, turn_id);
CREATE INDEX ix_source_turns_session_id_source_turn_id ON source_turns (session_id, source_turn_id);
COMMIT;
