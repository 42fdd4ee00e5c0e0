CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);

CREATE TABLE results (
	seq INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	id VARCHAR(71) NOT NULL, 
	title TEXT NOT NULL, 
	verdict VARCHAR(16) NOT NULL, 
	finished_at VARCHAR(40) NOT NULL, 
	document BLOB NOT NULL, 
	UNIQUE (id)
);

CREATE TABLE events (
	seq INTEGER NOT NULL, 
	prev BLOB NOT NULL, 
	kind TEXT NOT NULL, 
	at TEXT NOT NULL, 
	actor TEXT NOT NULL, 
	subject TEXT, 
	payload_digest BLOB NOT NULL, 
	digest BLOB NOT NULL, 
	PRIMARY KEY (seq)
);

CREATE INDEX events_by_subject ON events (subject);

CREATE INDEX events_by_kind ON events (kind);

CREATE INDEX events_by_payload ON events (payload_digest);

CREATE TABLE payloads (
	seq INTEGER NOT NULL, 
	data BLOB NOT NULL, 
	PRIMARY KEY (seq)
);

CREATE TABLE payload_erasures (
	seq INTEGER NOT NULL, 
	tombstone INTEGER NOT NULL, 
	PRIMARY KEY (seq)
);

CREATE TABLE nodes (
	number INTEGER NOT NULL, 
	hash BLOB NOT NULL, 
	PRIMARY KEY (number)
);

CREATE TABLE checkpoints (
	size INTEGER NOT NULL, 
	note TEXT NOT NULL, 
	PRIMARY KEY (size, note)
);

CREATE TABLE blobs (
	digest VARCHAR(71) NOT NULL, 
	byte_count INTEGER NOT NULL, 
	PRIMARY KEY (digest)
);

CREATE TABLE blob_pieces (
	digest VARCHAR(71) NOT NULL, 
	part INTEGER NOT NULL, 
	data BLOB NOT NULL, 
	PRIMARY KEY (digest, part)
);

CREATE TABLE blob_erasures (
	digest VARCHAR(71) NOT NULL, 
	tombstone INTEGER NOT NULL, 
	PRIMARY KEY (digest)
);

CREATE TABLE point_series (
	id INTEGER NOT NULL, 
	asset TEXT NOT NULL, 
	metric TEXT NOT NULL, 
	form VARCHAR(16) NOT NULL, 
	length_s INTEGER NOT NULL, 
	phase_s INTEGER NOT NULL, 
	layout TEXT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (asset, metric)
);

CREATE TABLE points (
	series_id INTEGER NOT NULL, 
	start_s INTEGER NOT NULL, 
	source TEXT NOT NULL, 
	revision INTEGER NOT NULL, 
	items INTEGER NOT NULL, 
	a DOUBLE NOT NULL, 
	b DOUBLE NOT NULL, 
	vector BLOB NOT NULL, 
	pushed_at INTEGER NOT NULL, 
	batch INTEGER NOT NULL, 
	PRIMARY KEY (series_id, start_s, source)
)
 WITHOUT ROWID

;

CREATE TABLE point_revisions (
	series_id INTEGER NOT NULL, 
	start_s INTEGER NOT NULL, 
	source TEXT NOT NULL, 
	revision INTEGER NOT NULL, 
	items INTEGER NOT NULL, 
	a DOUBLE NOT NULL, 
	b DOUBLE NOT NULL, 
	vector BLOB NOT NULL, 
	pushed_at INTEGER NOT NULL, 
	batch INTEGER NOT NULL, 
	PRIMARY KEY (series_id, start_s, source, revision)
)
 WITHOUT ROWID

;

CREATE TABLE drift_levels (
	series_id INTEGER NOT NULL, 
	detector TEXT NOT NULL, 
	level VARCHAR(24) NOT NULL, 
	PRIMARY KEY (series_id, detector)
);

CREATE TABLE episodes (
	id VARCHAR(71) NOT NULL, 
	asset TEXT NOT NULL, 
	level VARCHAR(24) NOT NULL, 
	is_open BOOLEAN NOT NULL, 
	opened_at VARCHAR(40) NOT NULL, 
	document BLOB NOT NULL, 
	baseline BLOB NOT NULL, 
	PRIMARY KEY (id)
);

CREATE INDEX episodes_by_asset ON episodes (asset);

CREATE TABLE episode_acts (
	episode VARCHAR(71) NOT NULL, 
	act VARCHAR(24) NOT NULL, 
	level VARCHAR(24) NOT NULL, 
	at VARCHAR(40) NOT NULL, 
	outcome TEXT NOT NULL, 
	events TEXT NOT NULL, 
	PRIMARY KEY (episode, act, level)
);

CREATE TABLE drift_ticks (
	name VARCHAR(24) NOT NULL, 
	number INTEGER NOT NULL, 
	at VARCHAR(40) NOT NULL, 
	PRIMARY KEY (name)
);

CREATE TABLE alerts (
	id VARCHAR(71) NOT NULL, 
	sink TEXT NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	attempts INTEGER NOT NULL, 
	created_at VARCHAR(40) NOT NULL, 
	last_error TEXT NOT NULL, 
	document BLOB NOT NULL, 
	PRIMARY KEY (id, sink)
);

CREATE TABLE schedules_seen (
	schedule TEXT NOT NULL, 
	first_seen_s INTEGER NOT NULL, 
	PRIMARY KEY (schedule)
);

CREATE TABLE schedule_runs (
	schedule TEXT NOT NULL, 
	occasion TEXT NOT NULL, 
	due_s INTEGER NOT NULL, 
	state VARCHAR(24) NOT NULL, 
	worker TEXT NOT NULL, 
	claimed_s INTEGER NOT NULL, 
	lease_until_s INTEGER NOT NULL, 
	finished_s BIGINT, 
	detail TEXT NOT NULL, 
	PRIMARY KEY (schedule, occasion)
);

CREATE INDEX schedule_runs_by_due ON schedule_runs (schedule, due_s);

CREATE TABLE schedule_triggers (
	kind VARCHAR(64) NOT NULL, 
	id VARCHAR(256) NOT NULL, 
	asset TEXT NOT NULL, 
	at_s INTEGER NOT NULL, 
	PRIMARY KEY (kind, id)
);

CREATE TABLE people (
	name VARCHAR(64) NOT NULL, 
	password TEXT, 
	is_closed BOOLEAN NOT NULL, 
	added_s INTEGER NOT NULL, 
	PRIMARY KEY (name)
);

CREATE TABLE join_links (
	hash VARCHAR(64) NOT NULL, 
	person VARCHAR(64), 
	expires_s INTEGER NOT NULL, 
	PRIMARY KEY (hash)
);

CREATE TABLE sessions (
	hash VARCHAR(64) NOT NULL, 
	person VARCHAR(64) NOT NULL, 
	started_s INTEGER NOT NULL, 
	expires_s INTEGER NOT NULL, 
	PRIMARY KEY (hash)
);

CREATE INDEX sessions_by_person ON sessions (person);

CREATE TABLE api_tokens (
	id VARCHAR(32) NOT NULL, 
	hash VARCHAR(64) NOT NULL, 
	person VARCHAR(64) NOT NULL, 
	label TEXT NOT NULL, 
	scopes TEXT NOT NULL, 
	made_s INTEGER NOT NULL, 
	expires_s INTEGER NOT NULL, 
	revoked_s INTEGER, 
	PRIMARY KEY (id)
);

CREATE INDEX api_tokens_by_person ON api_tokens (person);

CREATE TABLE sign_in_tries (
	hash VARCHAR(64) NOT NULL, 
	back_to TEXT NOT NULL, 
	expires_s INTEGER NOT NULL, 
	PRIMARY KEY (hash)
);

CREATE TABLE identities (
	issuer VARCHAR(512) NOT NULL, 
	subject VARCHAR(255) NOT NULL, 
	person VARCHAR(64) NOT NULL, 
	added_s INTEGER NOT NULL, 
	PRIMARY KEY (issuer, subject)
);

CREATE UNIQUE INDEX identities_by_person ON identities (person);

CREATE TABLE kept_answers (
	person VARCHAR(64) NOT NULL, 
	"key" VARCHAR(128) NOT NULL, 
	request VARCHAR(71) NOT NULL, 
	status INTEGER, 
	body BLOB, 
	kept_s INTEGER NOT NULL, 
	PRIMARY KEY (person, "key")
);

CREATE TABLE page_runs (
	id VARCHAR(32) NOT NULL, 
	pack TEXT NOT NULL, 
	person VARCHAR(64) NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	choices TEXT NOT NULL, 
	result_id VARCHAR(71), 
	detail TEXT NOT NULL, 
	started_s INTEGER NOT NULL, 
	alive_s INTEGER NOT NULL, 
	finished_s INTEGER, 
	PRIMARY KEY (id)
);

CREATE INDEX page_runs_by_start ON page_runs (started_s);

CREATE TABLE reviews (
	name VARCHAR(128) NOT NULL, 
	"plan" BLOB NOT NULL, 
	commitment VARCHAR(71) NOT NULL, 
	sealed_key BLOB NOT NULL, 
	facts BLOB NOT NULL, 
	created_by TEXT NOT NULL, 
	created_at VARCHAR(40) NOT NULL, 
	PRIMARY KEY (name)
);

CREATE TABLE review_pairs (
	review VARCHAR(128) NOT NULL, 
	number INTEGER NOT NULL, 
	is_gold BOOLEAN NOT NULL, 
	document BLOB NOT NULL, 
	PRIMARY KEY (review, number)
);

CREATE TABLE review_closings (
	review VARCHAR(128) NOT NULL, 
	"by" TEXT NOT NULL, 
	at VARCHAR(40) NOT NULL, 
	note TEXT NOT NULL, 
	PRIMARY KEY (review)
);

CREATE TABLE review_shows (
	review VARCHAR(128) NOT NULL, 
	reviewer VARCHAR(128) NOT NULL, 
	ordinal INTEGER NOT NULL, 
	number INTEGER NOT NULL, 
	token VARCHAR(32) NOT NULL, 
	at VARCHAR(40) NOT NULL, 
	PRIMARY KEY (review, reviewer, ordinal), 
	UNIQUE (review, token)
);

CREATE TABLE review_votes (
	review VARCHAR(128) NOT NULL, 
	reviewer VARCHAR(128) NOT NULL, 
	ordinal INTEGER NOT NULL, 
	version INTEGER NOT NULL, 
	answered VARCHAR(16) NOT NULL, 
	reason TEXT NOT NULL, 
	at VARCHAR(40) NOT NULL, 
	PRIMARY KEY (review, reviewer, ordinal, version)
);

CREATE TABLE label_sets (
	name VARCHAR(128) NOT NULL, 
	document BLOB NOT NULL, 
	created_by TEXT NOT NULL, 
	created_at VARCHAR(40) NOT NULL, 
	PRIMARY KEY (name)
);

CREATE TABLE label_items (
	label_set VARCHAR(128) NOT NULL, 
	number INTEGER NOT NULL, 
	id TEXT NOT NULL, 
	document BLOB NOT NULL, 
	PRIMARY KEY (label_set, number), 
	UNIQUE (label_set, id)
);

CREATE TABLE label_marks (
	label_set VARCHAR(128) NOT NULL, 
	number INTEGER NOT NULL, 
	reviewer VARCHAR(128) NOT NULL, 
	version INTEGER NOT NULL, 
	label TEXT NOT NULL, 
	note TEXT NOT NULL, 
	at VARCHAR(40) NOT NULL, 
	PRIMARY KEY (label_set, number, reviewer, version)
);

CREATE TABLE label_acceptances (
	label_set VARCHAR(128) NOT NULL, 
	number INTEGER NOT NULL, 
	version INTEGER NOT NULL, 
	label TEXT NOT NULL, 
	reviewers TEXT NOT NULL, 
	"by" TEXT NOT NULL, 
	at VARCHAR(40) NOT NULL, 
	PRIMARY KEY (label_set, number, version)
);

CREATE TRIGGER results_no_delete BEFORE DELETE ON results BEGIN SELECT RAISE(ABORT, 'results are append-only'); END;

CREATE TRIGGER events_no_update BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;

CREATE TRIGGER events_no_delete BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;

CREATE TRIGGER nodes_no_update BEFORE UPDATE ON nodes BEGIN SELECT RAISE(ABORT, 'nodes are append-only'); END;

CREATE TRIGGER nodes_no_delete BEFORE DELETE ON nodes BEGIN SELECT RAISE(ABORT, 'nodes are append-only'); END;

CREATE TRIGGER checkpoints_no_update BEFORE UPDATE ON checkpoints BEGIN SELECT RAISE(ABORT, 'checkpoints are append-only'); END;

CREATE TRIGGER checkpoints_no_delete BEFORE DELETE ON checkpoints BEGIN SELECT RAISE(ABORT, 'checkpoints are append-only'); END;

CREATE TRIGGER payload_erasures_no_update BEFORE UPDATE ON payload_erasures BEGIN SELECT RAISE(ABORT, 'payload_erasures are append-only'); END;

CREATE TRIGGER payload_erasures_no_delete BEFORE DELETE ON payload_erasures BEGIN SELECT RAISE(ABORT, 'payload_erasures are append-only'); END;

CREATE TRIGGER blob_erasures_no_update BEFORE UPDATE ON blob_erasures BEGIN SELECT RAISE(ABORT, 'blob_erasures are append-only'); END;

CREATE TRIGGER blob_erasures_no_delete BEFORE DELETE ON blob_erasures BEGIN SELECT RAISE(ABORT, 'blob_erasures are append-only'); END;

CREATE TRIGGER point_revisions_no_update BEFORE UPDATE ON point_revisions BEGIN SELECT RAISE(ABORT, 'point_revisions are append-only'); END;

CREATE TRIGGER point_revisions_no_delete BEFORE DELETE ON point_revisions BEGIN SELECT RAISE(ABORT, 'point_revisions are append-only'); END;

CREATE TRIGGER reviews_no_update BEFORE UPDATE ON reviews BEGIN SELECT RAISE(ABORT, 'reviews are append-only'); END;

CREATE TRIGGER reviews_no_delete BEFORE DELETE ON reviews BEGIN SELECT RAISE(ABORT, 'reviews are append-only'); END;

CREATE TRIGGER review_pairs_no_delete BEFORE DELETE ON review_pairs BEGIN SELECT RAISE(ABORT, 'review_pairs are append-only'); END;

CREATE TRIGGER review_shows_no_update BEFORE UPDATE ON review_shows BEGIN SELECT RAISE(ABORT, 'review_shows are append-only'); END;

CREATE TRIGGER review_shows_no_delete BEFORE DELETE ON review_shows BEGIN SELECT RAISE(ABORT, 'review_shows are append-only'); END;

CREATE TRIGGER review_votes_no_update BEFORE UPDATE ON review_votes BEGIN SELECT RAISE(ABORT, 'review_votes are append-only'); END;

CREATE TRIGGER review_votes_no_delete BEFORE DELETE ON review_votes BEGIN SELECT RAISE(ABORT, 'review_votes are append-only'); END;

CREATE TRIGGER review_closings_no_update BEFORE UPDATE ON review_closings BEGIN SELECT RAISE(ABORT, 'review_closings are append-only'); END;

CREATE TRIGGER review_closings_no_delete BEFORE DELETE ON review_closings BEGIN SELECT RAISE(ABORT, 'review_closings are append-only'); END;

CREATE TRIGGER label_sets_no_update BEFORE UPDATE ON label_sets BEGIN SELECT RAISE(ABORT, 'label_sets are append-only'); END;

CREATE TRIGGER label_sets_no_delete BEFORE DELETE ON label_sets BEGIN SELECT RAISE(ABORT, 'label_sets are append-only'); END;

CREATE TRIGGER label_items_no_delete BEFORE DELETE ON label_items BEGIN SELECT RAISE(ABORT, 'label_items are append-only'); END;

CREATE TRIGGER label_marks_no_update BEFORE UPDATE ON label_marks BEGIN SELECT RAISE(ABORT, 'label_marks are append-only'); END;

CREATE TRIGGER label_marks_no_delete BEFORE DELETE ON label_marks BEGIN SELECT RAISE(ABORT, 'label_marks are append-only'); END;

CREATE TRIGGER label_acceptances_no_update BEFORE UPDATE ON label_acceptances BEGIN SELECT RAISE(ABORT, 'label_acceptances are append-only'); END;

CREATE TRIGGER label_acceptances_no_delete BEFORE DELETE ON label_acceptances BEGIN SELECT RAISE(ABORT, 'label_acceptances are append-only'); END;

CREATE TRIGGER events_in_succession BEFORE INSERT ON events WHEN NEW.seq <> 1 + (SELECT coalesce(max(seq), 0) FROM events) OR NEW.prev <> coalesce((SELECT digest FROM events WHERE seq = NEW.seq - 1), zeroblob(32)) BEGIN SELECT RAISE(ABORT, 'events follow each other without a gap'); END;

CREATE TRIGGER payloads_no_update BEFORE UPDATE ON payloads BEGIN SELECT RAISE(ABORT, 'payloads are append-only'); END;

CREATE TRIGGER payloads_no_delete BEFORE DELETE ON payloads WHEN NOT EXISTS (SELECT 1 FROM payload_erasures WHERE seq = OLD.seq) BEGIN SELECT RAISE(ABORT, 'payloads are removed only after their tombstone'); END;

CREATE TRIGGER blobs_no_update BEFORE UPDATE ON blobs BEGIN SELECT RAISE(ABORT, 'blobs are append-only'); END;

CREATE TRIGGER blobs_no_delete BEFORE DELETE ON blobs WHEN NOT EXISTS (SELECT 1 FROM blob_erasures WHERE digest = OLD.digest) BEGIN SELECT RAISE(ABORT, 'blobs are removed only after their tombstone'); END;

CREATE TRIGGER blob_pieces_no_update BEFORE UPDATE ON blob_pieces BEGIN SELECT RAISE(ABORT, 'blob_pieces are append-only'); END;

CREATE TRIGGER blob_pieces_no_delete BEFORE DELETE ON blob_pieces WHEN NOT EXISTS (SELECT 1 FROM blob_erasures WHERE digest = OLD.digest) BEGIN SELECT RAISE(ABORT, 'blob_pieces are removed only after their tombstone'); END;

CREATE TRIGGER results_no_update BEFORE UPDATE ON results WHEN NOT (NEW.document IS x'' AND OLD.document IS NOT x'' AND NEW.seq IS OLD.seq AND NEW.id IS OLD.id AND NEW.title IS OLD.title AND NEW.verdict IS OLD.verdict AND NEW.finished_at IS OLD.finished_at AND EXISTS (SELECT 1 FROM events JOIN payloads ON payloads.seq = events.seq WHERE events.seq = (SELECT max(seq) FROM events) AND events.kind = 'content_erased' AND json_extract(CAST(payloads.data AS TEXT), '$.payload.what') IS 'result' AND json_extract(CAST(payloads.data AS TEXT), '$.payload.name') IS OLD.id)) BEGIN SELECT RAISE(ABORT, 'results are append-only; only an erasure empties a document'); END;

CREATE TRIGGER review_pairs_no_update BEFORE UPDATE ON review_pairs WHEN NOT (NEW.document IS x'' AND OLD.document IS NOT x'' AND NEW.review IS OLD.review AND NEW.number IS OLD.number AND NEW.is_gold IS OLD.is_gold AND EXISTS (SELECT 1 FROM events JOIN payloads ON payloads.seq = events.seq WHERE events.seq = (SELECT max(seq) FROM events) AND events.kind = 'content_erased' AND json_extract(CAST(payloads.data AS TEXT), '$.payload.what') IS 'pair' AND json_extract(CAST(payloads.data AS TEXT), '$.payload.name') IS OLD.review AND json_extract(CAST(payloads.data AS TEXT), '$.payload.number') IS OLD.number)) BEGIN SELECT RAISE(ABORT, 'review_pairs are append-only; only an erasure empties a document'); END;

CREATE TRIGGER label_items_no_update BEFORE UPDATE ON label_items WHEN NOT (NEW.document IS x'' AND OLD.document IS NOT x'' AND NEW.label_set IS OLD.label_set AND NEW.number IS OLD.number AND NEW.id IS OLD.id AND EXISTS (SELECT 1 FROM events JOIN payloads ON payloads.seq = events.seq WHERE events.seq = (SELECT max(seq) FROM events) AND events.kind = 'content_erased' AND json_extract(CAST(payloads.data AS TEXT), '$.payload.what') IS 'item' AND json_extract(CAST(payloads.data AS TEXT), '$.payload.name') IS OLD.label_set AND json_extract(CAST(payloads.data AS TEXT), '$.payload.number') IS OLD.number)) BEGIN SELECT RAISE(ABORT, 'label_items are append-only; only an erasure empties a document'); END;

INSERT INTO alembic_version (version_num) VALUES ('0001')
