CREATE TABLE IF NOT EXISTS alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);

CREATE TABLE results (
	seq SERIAL NOT NULL, 
	id VARCHAR(71) NOT NULL, 
	title TEXT NOT NULL, 
	verdict VARCHAR(16) NOT NULL, 
	finished_at VARCHAR(40) NOT NULL, 
	document BYTEA NOT NULL, 
	PRIMARY KEY (seq), 
	UNIQUE (id)
);

CREATE TABLE events (
	seq BIGINT NOT NULL, 
	prev BYTEA NOT NULL, 
	kind TEXT NOT NULL, 
	at TEXT NOT NULL, 
	actor TEXT NOT NULL, 
	subject TEXT, 
	payload_digest BYTEA NOT NULL, 
	digest BYTEA NOT NULL, 
	PRIMARY KEY (seq)
);

CREATE INDEX events_by_subject ON events (subject, seq);

CREATE INDEX events_by_kind ON events (kind, seq);

CREATE INDEX events_by_payload ON events (payload_digest);

CREATE TABLE payloads (
	seq BIGINT NOT NULL, 
	data BYTEA NOT NULL, 
	PRIMARY KEY (seq)
);

CREATE TABLE payload_erasures (
	seq BIGINT NOT NULL, 
	tombstone BIGINT NOT NULL, 
	PRIMARY KEY (seq)
);

CREATE TABLE nodes (
	number BIGINT NOT NULL, 
	hash BYTEA NOT NULL, 
	PRIMARY KEY (number)
);

CREATE TABLE checkpoints (
	size BIGINT NOT NULL, 
	note TEXT NOT NULL, 
	PRIMARY KEY (size, note)
);

CREATE TABLE blobs (
	digest VARCHAR(71) NOT NULL, 
	byte_count BIGINT NOT NULL, 
	PRIMARY KEY (digest)
);

CREATE TABLE blob_pieces (
	digest VARCHAR(71) NOT NULL, 
	part BIGINT NOT NULL, 
	data BYTEA NOT NULL, 
	PRIMARY KEY (digest, part)
);

CREATE TABLE blob_erasures (
	digest VARCHAR(71) NOT NULL, 
	tombstone BIGINT NOT NULL, 
	PRIMARY KEY (digest)
);

CREATE TABLE point_series (
	id BIGINT NOT NULL, 
	asset TEXT NOT NULL, 
	metric TEXT NOT NULL, 
	form VARCHAR(16) NOT NULL, 
	length_s BIGINT NOT NULL, 
	phase_s BIGINT NOT NULL, 
	layout TEXT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (asset, metric)
);

CREATE TABLE points (
	series_id BIGINT NOT NULL, 
	start_s BIGINT NOT NULL, 
	source TEXT NOT NULL, 
	revision BIGINT NOT NULL, 
	items BIGINT NOT NULL, 
	a DOUBLE PRECISION NOT NULL, 
	b DOUBLE PRECISION NOT NULL, 
	vector BYTEA NOT NULL, 
	pushed_at BIGINT NOT NULL, 
	batch BIGINT NOT NULL, 
	PRIMARY KEY (series_id, start_s, source)
);

CREATE TABLE point_revisions (
	series_id BIGINT NOT NULL, 
	start_s BIGINT NOT NULL, 
	source TEXT NOT NULL, 
	revision BIGINT NOT NULL, 
	items BIGINT NOT NULL, 
	a DOUBLE PRECISION NOT NULL, 
	b DOUBLE PRECISION NOT NULL, 
	vector BYTEA NOT NULL, 
	pushed_at BIGINT NOT NULL, 
	batch BIGINT NOT NULL, 
	PRIMARY KEY (series_id, start_s, source, revision)
);

CREATE TABLE drift_levels (
	series_id BIGINT NOT NULL, 
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
	document BYTEA NOT NULL, 
	baseline BYTEA NOT NULL, 
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
	number BIGINT NOT NULL, 
	at VARCHAR(40) NOT NULL, 
	PRIMARY KEY (name)
);

CREATE TABLE alerts (
	id VARCHAR(71) NOT NULL, 
	sink TEXT NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	attempts BIGINT NOT NULL, 
	created_at VARCHAR(40) NOT NULL, 
	last_error TEXT NOT NULL, 
	document BYTEA NOT NULL, 
	PRIMARY KEY (id, sink)
);

CREATE TABLE schedules_seen (
	schedule TEXT NOT NULL, 
	first_seen_s BIGINT NOT NULL, 
	PRIMARY KEY (schedule)
);

CREATE TABLE schedule_runs (
	schedule TEXT NOT NULL, 
	occasion TEXT NOT NULL, 
	due_s BIGINT NOT NULL, 
	state VARCHAR(24) NOT NULL, 
	worker TEXT NOT NULL, 
	claimed_s BIGINT NOT NULL, 
	lease_until_s BIGINT NOT NULL, 
	finished_s BIGINT, 
	detail TEXT NOT NULL, 
	PRIMARY KEY (schedule, occasion)
);

CREATE INDEX schedule_runs_by_due ON schedule_runs (schedule, due_s);

CREATE TABLE schedule_triggers (
	kind VARCHAR(64) NOT NULL, 
	id VARCHAR(256) NOT NULL, 
	asset TEXT NOT NULL, 
	at_s BIGINT NOT NULL, 
	PRIMARY KEY (kind, id)
);

CREATE TABLE people (
	name VARCHAR(64) NOT NULL, 
	password TEXT, 
	is_closed BOOLEAN NOT NULL, 
	added_s BIGINT NOT NULL, 
	PRIMARY KEY (name)
);

CREATE TABLE join_links (
	hash VARCHAR(64) NOT NULL, 
	person VARCHAR(64), 
	expires_s BIGINT NOT NULL, 
	PRIMARY KEY (hash)
);

CREATE TABLE sessions (
	hash VARCHAR(64) NOT NULL, 
	person VARCHAR(64) NOT NULL, 
	started_s BIGINT NOT NULL, 
	expires_s BIGINT NOT NULL, 
	PRIMARY KEY (hash)
);

CREATE INDEX sessions_by_person ON sessions (person);

CREATE TABLE api_tokens (
	id VARCHAR(32) NOT NULL, 
	hash VARCHAR(64) NOT NULL, 
	person VARCHAR(64) NOT NULL, 
	label TEXT NOT NULL, 
	scopes TEXT NOT NULL, 
	made_s BIGINT NOT NULL, 
	expires_s BIGINT NOT NULL, 
	revoked_s BIGINT, 
	PRIMARY KEY (id)
);

CREATE INDEX api_tokens_by_person ON api_tokens (person);

CREATE TABLE sign_in_tries (
	hash VARCHAR(64) NOT NULL, 
	back_to TEXT NOT NULL, 
	expires_s BIGINT NOT NULL, 
	PRIMARY KEY (hash)
);

CREATE TABLE identities (
	issuer VARCHAR(512) NOT NULL, 
	subject VARCHAR(255) NOT NULL, 
	person VARCHAR(64) NOT NULL, 
	added_s BIGINT NOT NULL, 
	PRIMARY KEY (issuer, subject)
);

CREATE UNIQUE INDEX identities_by_person ON identities (person);

CREATE TABLE kept_answers (
	person VARCHAR(64) NOT NULL, 
	key VARCHAR(128) NOT NULL, 
	request VARCHAR(71) NOT NULL, 
	status INTEGER, 
	body BYTEA, 
	kept_s BIGINT NOT NULL, 
	PRIMARY KEY (person, key)
);

CREATE TABLE page_runs (
	id VARCHAR(32) NOT NULL, 
	pack TEXT NOT NULL, 
	person VARCHAR(64) NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	choices TEXT NOT NULL, 
	result_id VARCHAR(71), 
	detail TEXT NOT NULL, 
	started_s BIGINT NOT NULL, 
	alive_s BIGINT NOT NULL, 
	finished_s BIGINT, 
	PRIMARY KEY (id)
);

CREATE INDEX page_runs_by_start ON page_runs (started_s);

CREATE TABLE reviews (
	name VARCHAR(128) NOT NULL, 
	plan BYTEA NOT NULL, 
	commitment VARCHAR(71) NOT NULL, 
	sealed_key BYTEA NOT NULL, 
	facts BYTEA NOT NULL, 
	created_by TEXT NOT NULL, 
	created_at VARCHAR(40) NOT NULL, 
	PRIMARY KEY (name)
);

CREATE TABLE review_pairs (
	review VARCHAR(128) NOT NULL, 
	number BIGINT NOT NULL, 
	is_gold BOOLEAN NOT NULL, 
	document BYTEA NOT NULL, 
	PRIMARY KEY (review, number)
);

CREATE TABLE review_closings (
	review VARCHAR(128) NOT NULL, 
	by TEXT NOT NULL, 
	at VARCHAR(40) NOT NULL, 
	note TEXT NOT NULL, 
	PRIMARY KEY (review)
);

CREATE TABLE review_shows (
	review VARCHAR(128) NOT NULL, 
	reviewer VARCHAR(128) NOT NULL, 
	ordinal BIGINT NOT NULL, 
	number BIGINT NOT NULL, 
	token VARCHAR(32) NOT NULL, 
	at VARCHAR(40) NOT NULL, 
	PRIMARY KEY (review, reviewer, ordinal), 
	UNIQUE (review, token)
);

CREATE TABLE review_votes (
	review VARCHAR(128) NOT NULL, 
	reviewer VARCHAR(128) NOT NULL, 
	ordinal BIGINT NOT NULL, 
	version BIGINT NOT NULL, 
	answered VARCHAR(16) NOT NULL, 
	reason TEXT NOT NULL, 
	at VARCHAR(40) NOT NULL, 
	PRIMARY KEY (review, reviewer, ordinal, version)
);

CREATE TABLE label_sets (
	name VARCHAR(128) NOT NULL, 
	document BYTEA NOT NULL, 
	created_by TEXT NOT NULL, 
	created_at VARCHAR(40) NOT NULL, 
	PRIMARY KEY (name)
);

CREATE TABLE label_items (
	label_set VARCHAR(128) NOT NULL, 
	number BIGINT NOT NULL, 
	id TEXT NOT NULL, 
	document BYTEA NOT NULL, 
	PRIMARY KEY (label_set, number), 
	UNIQUE (label_set, id)
);

CREATE TABLE label_marks (
	label_set VARCHAR(128) NOT NULL, 
	number BIGINT NOT NULL, 
	reviewer VARCHAR(128) NOT NULL, 
	version BIGINT NOT NULL, 
	label TEXT NOT NULL, 
	note TEXT NOT NULL, 
	at VARCHAR(40) NOT NULL, 
	PRIMARY KEY (label_set, number, reviewer, version)
);

CREATE TABLE label_acceptances (
	label_set VARCHAR(128) NOT NULL, 
	number BIGINT NOT NULL, 
	version BIGINT NOT NULL, 
	label TEXT NOT NULL, 
	reviewers TEXT NOT NULL, 
	by TEXT NOT NULL, 
	at VARCHAR(40) NOT NULL, 
	PRIMARY KEY (label_set, number, version)
);

CREATE OR REPLACE FUNCTION gatemark_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION USING MESSAGE = TG_TABLE_NAME || ' are append-only'; END $$;

CREATE TRIGGER results_no_update BEFORE UPDATE ON results FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

CREATE TRIGGER results_no_delete BEFORE DELETE ON results FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

CREATE TRIGGER results_no_truncate BEFORE TRUNCATE ON results FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

REVOKE UPDATE, DELETE, TRUNCATE ON results FROM PUBLIC, CURRENT_USER;

CREATE TRIGGER events_no_update BEFORE UPDATE ON events FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

CREATE TRIGGER events_no_delete BEFORE DELETE ON events FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

CREATE TRIGGER events_no_truncate BEFORE TRUNCATE ON events FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

REVOKE UPDATE, DELETE, TRUNCATE ON events FROM PUBLIC, CURRENT_USER;

CREATE TRIGGER nodes_no_update BEFORE UPDATE ON nodes FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

CREATE TRIGGER nodes_no_delete BEFORE DELETE ON nodes FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

CREATE TRIGGER nodes_no_truncate BEFORE TRUNCATE ON nodes FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

REVOKE UPDATE, DELETE, TRUNCATE ON nodes FROM PUBLIC, CURRENT_USER;

CREATE TRIGGER checkpoints_no_update BEFORE UPDATE ON checkpoints FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

CREATE TRIGGER checkpoints_no_delete BEFORE DELETE ON checkpoints FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

CREATE TRIGGER checkpoints_no_truncate BEFORE TRUNCATE ON checkpoints FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

REVOKE UPDATE, DELETE, TRUNCATE ON checkpoints FROM PUBLIC, CURRENT_USER;

CREATE TRIGGER payload_erasures_no_update BEFORE UPDATE ON payload_erasures FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

CREATE TRIGGER payload_erasures_no_delete BEFORE DELETE ON payload_erasures FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

CREATE TRIGGER payload_erasures_no_truncate BEFORE TRUNCATE ON payload_erasures FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

REVOKE UPDATE, DELETE, TRUNCATE ON payload_erasures FROM PUBLIC, CURRENT_USER;

CREATE TRIGGER blob_erasures_no_update BEFORE UPDATE ON blob_erasures FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

CREATE TRIGGER blob_erasures_no_delete BEFORE DELETE ON blob_erasures FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

CREATE TRIGGER blob_erasures_no_truncate BEFORE TRUNCATE ON blob_erasures FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

REVOKE UPDATE, DELETE, TRUNCATE ON blob_erasures FROM PUBLIC, CURRENT_USER;

CREATE TRIGGER point_revisions_no_update BEFORE UPDATE ON point_revisions FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

CREATE TRIGGER point_revisions_no_delete BEFORE DELETE ON point_revisions FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

CREATE TRIGGER point_revisions_no_truncate BEFORE TRUNCATE ON point_revisions FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

REVOKE UPDATE, DELETE, TRUNCATE ON point_revisions FROM PUBLIC, CURRENT_USER;

CREATE TRIGGER reviews_no_update BEFORE UPDATE ON reviews FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

CREATE TRIGGER reviews_no_delete BEFORE DELETE ON reviews FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

CREATE TRIGGER reviews_no_truncate BEFORE TRUNCATE ON reviews FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

REVOKE UPDATE, DELETE, TRUNCATE ON reviews FROM PUBLIC, CURRENT_USER;

CREATE TRIGGER review_pairs_no_update BEFORE UPDATE ON review_pairs FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

CREATE TRIGGER review_pairs_no_delete BEFORE DELETE ON review_pairs FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

CREATE TRIGGER review_pairs_no_truncate BEFORE TRUNCATE ON review_pairs FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

REVOKE UPDATE, DELETE, TRUNCATE ON review_pairs FROM PUBLIC, CURRENT_USER;

CREATE TRIGGER review_shows_no_update BEFORE UPDATE ON review_shows FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

CREATE TRIGGER review_shows_no_delete BEFORE DELETE ON review_shows FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

CREATE TRIGGER review_shows_no_truncate BEFORE TRUNCATE ON review_shows FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

REVOKE UPDATE, DELETE, TRUNCATE ON review_shows FROM PUBLIC, CURRENT_USER;

CREATE TRIGGER review_votes_no_update BEFORE UPDATE ON review_votes FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

CREATE TRIGGER review_votes_no_delete BEFORE DELETE ON review_votes FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

CREATE TRIGGER review_votes_no_truncate BEFORE TRUNCATE ON review_votes FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

REVOKE UPDATE, DELETE, TRUNCATE ON review_votes FROM PUBLIC, CURRENT_USER;

CREATE TRIGGER review_closings_no_update BEFORE UPDATE ON review_closings FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

CREATE TRIGGER review_closings_no_delete BEFORE DELETE ON review_closings FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

CREATE TRIGGER review_closings_no_truncate BEFORE TRUNCATE ON review_closings FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

REVOKE UPDATE, DELETE, TRUNCATE ON review_closings FROM PUBLIC, CURRENT_USER;

CREATE TRIGGER label_sets_no_update BEFORE UPDATE ON label_sets FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

CREATE TRIGGER label_sets_no_delete BEFORE DELETE ON label_sets FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

CREATE TRIGGER label_sets_no_truncate BEFORE TRUNCATE ON label_sets FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

REVOKE UPDATE, DELETE, TRUNCATE ON label_sets FROM PUBLIC, CURRENT_USER;

CREATE TRIGGER label_items_no_update BEFORE UPDATE ON label_items FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

CREATE TRIGGER label_items_no_delete BEFORE DELETE ON label_items FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

CREATE TRIGGER label_items_no_truncate BEFORE TRUNCATE ON label_items FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

REVOKE UPDATE, DELETE, TRUNCATE ON label_items FROM PUBLIC, CURRENT_USER;

CREATE TRIGGER label_marks_no_update BEFORE UPDATE ON label_marks FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

CREATE TRIGGER label_marks_no_delete BEFORE DELETE ON label_marks FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

CREATE TRIGGER label_marks_no_truncate BEFORE TRUNCATE ON label_marks FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

REVOKE UPDATE, DELETE, TRUNCATE ON label_marks FROM PUBLIC, CURRENT_USER;

CREATE TRIGGER label_acceptances_no_update BEFORE UPDATE ON label_acceptances FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

CREATE TRIGGER label_acceptances_no_delete BEFORE DELETE ON label_acceptances FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

CREATE TRIGGER label_acceptances_no_truncate BEFORE TRUNCATE ON label_acceptances FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

REVOKE UPDATE, DELETE, TRUNCATE ON label_acceptances FROM PUBLIC, CURRENT_USER;

CREATE FUNCTION gatemark_succession() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE last_seq bigint; last_digest bytea; BEGIN SELECT seq, digest INTO last_seq, last_digest FROM {schema}.events ORDER BY seq DESC LIMIT 1; IF NEW.seq <> coalesce(last_seq, 0) + 1 OR NEW.prev <> coalesce(last_digest, decode(repeat('00', 32), 'hex')) THEN RAISE EXCEPTION 'events follow each other without a gap' USING ERRCODE = 'integrity_constraint_violation'; END IF; RETURN NEW; END $$;

CREATE TRIGGER events_in_succession BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION gatemark_succession();

CREATE FUNCTION gatemark_erase_payloads() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NOT EXISTS (SELECT 1 FROM {schema}.payload_erasures WHERE seq = OLD.seq) THEN RAISE EXCEPTION 'payloads are removed only after their tombstone'; END IF; RETURN OLD; END $$;

CREATE TRIGGER payloads_no_delete BEFORE DELETE ON payloads FOR EACH ROW EXECUTE FUNCTION gatemark_erase_payloads();

CREATE TRIGGER payloads_no_update BEFORE UPDATE ON payloads FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

CREATE TRIGGER payloads_no_truncate BEFORE TRUNCATE ON payloads FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

REVOKE UPDATE, TRUNCATE ON payloads FROM PUBLIC, CURRENT_USER;

CREATE FUNCTION gatemark_erase_blobs() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NOT EXISTS (SELECT 1 FROM {schema}.blob_erasures WHERE digest = OLD.digest) THEN RAISE EXCEPTION 'blobs are removed only after their tombstone'; END IF; RETURN OLD; END $$;

CREATE TRIGGER blobs_no_delete BEFORE DELETE ON blobs FOR EACH ROW EXECUTE FUNCTION gatemark_erase_blobs();

CREATE TRIGGER blobs_no_update BEFORE UPDATE ON blobs FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

CREATE TRIGGER blobs_no_truncate BEFORE TRUNCATE ON blobs FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

REVOKE UPDATE, TRUNCATE ON blobs FROM PUBLIC, CURRENT_USER;

CREATE FUNCTION gatemark_erase_blob_pieces() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NOT EXISTS (SELECT 1 FROM {schema}.blob_erasures WHERE digest = OLD.digest) THEN RAISE EXCEPTION 'blob_pieces are removed only after their tombstone'; END IF; RETURN OLD; END $$;

CREATE TRIGGER blob_pieces_no_delete BEFORE DELETE ON blob_pieces FOR EACH ROW EXECUTE FUNCTION gatemark_erase_blob_pieces();

CREATE TRIGGER blob_pieces_no_update BEFORE UPDATE ON blob_pieces FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

CREATE TRIGGER blob_pieces_no_truncate BEFORE TRUNCATE ON blob_pieces FOR EACH STATEMENT EXECUTE FUNCTION gatemark_refuse();

REVOKE UPDATE, TRUNCATE ON blob_pieces FROM PUBLIC, CURRENT_USER;

DROP TRIGGER IF EXISTS results_no_update ON results;

CREATE FUNCTION gatemark_empty_results() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE said json; BEGIN SELECT convert_from(data, 'UTF8')::json INTO said FROM {schema}.payloads WHERE seq = (SELECT max(seq) FROM {schema}.events) AND EXISTS (SELECT 1 FROM {schema}.events e WHERE e.seq = payloads.seq AND e.kind = 'content_erased'); IF octet_length(NEW.document) = 0 AND octet_length(OLD.document) > 0 AND to_jsonb(NEW) - 'document' = to_jsonb(OLD) - 'document' AND said #>> '{payload,what}' = 'result' AND said #>> '{payload,name}' = OLD.id THEN RETURN NEW; END IF; RAISE EXCEPTION 'results are append-only; only an erasure empties a document'; END $$;

CREATE TRIGGER results_no_update BEFORE UPDATE ON results FOR EACH ROW EXECUTE FUNCTION gatemark_empty_results();

GRANT UPDATE (document) ON results TO CURRENT_USER;

DROP TRIGGER IF EXISTS review_pairs_no_update ON review_pairs;

CREATE FUNCTION gatemark_empty_review_pairs() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE said json; BEGIN SELECT convert_from(data, 'UTF8')::json INTO said FROM {schema}.payloads WHERE seq = (SELECT max(seq) FROM {schema}.events) AND EXISTS (SELECT 1 FROM {schema}.events e WHERE e.seq = payloads.seq AND e.kind = 'content_erased'); IF octet_length(NEW.document) = 0 AND octet_length(OLD.document) > 0 AND to_jsonb(NEW) - 'document' = to_jsonb(OLD) - 'document' AND said #>> '{payload,what}' = 'pair' AND said #>> '{payload,name}' = OLD.review AND said #>> '{payload,number}' = OLD.number::text THEN RETURN NEW; END IF; RAISE EXCEPTION 'review_pairs are append-only; only an erasure empties a document'; END $$;

CREATE TRIGGER review_pairs_no_update BEFORE UPDATE ON review_pairs FOR EACH ROW EXECUTE FUNCTION gatemark_empty_review_pairs();

GRANT UPDATE (document) ON review_pairs TO CURRENT_USER;

DROP TRIGGER IF EXISTS label_items_no_update ON label_items;

CREATE FUNCTION gatemark_empty_label_items() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE said json; BEGIN SELECT convert_from(data, 'UTF8')::json INTO said FROM {schema}.payloads WHERE seq = (SELECT max(seq) FROM {schema}.events) AND EXISTS (SELECT 1 FROM {schema}.events e WHERE e.seq = payloads.seq AND e.kind = 'content_erased'); IF octet_length(NEW.document) = 0 AND octet_length(OLD.document) > 0 AND to_jsonb(NEW) - 'document' = to_jsonb(OLD) - 'document' AND said #>> '{payload,what}' = 'item' AND said #>> '{payload,name}' = OLD.label_set AND said #>> '{payload,number}' = OLD.number::text THEN RETURN NEW; END IF; RAISE EXCEPTION 'label_items are append-only; only an erasure empties a document'; END $$;

CREATE TRIGGER label_items_no_update BEFORE UPDATE ON label_items FOR EACH ROW EXECUTE FUNCTION gatemark_empty_label_items();

GRANT UPDATE (document) ON label_items TO CURRENT_USER;

INSERT INTO alembic_version (version_num) VALUES ('0001')
