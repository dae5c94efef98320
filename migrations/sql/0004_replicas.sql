-- What the indexes of a runtime are made of, and what they leave behind: vectors that all runtimes share, signals of what
-- was recalled, and how far each runtime has come.
--
-- A runtime hosts several agents and keeps one index of all they read. So these functions take credentials as two arrays,
-- principals and tokens, and answer for what any of them may read; each is judged by the same walk as everywhere.

-- A vector is computed once for a text and an embedding space ("model@dimensions"), and goes with the memory.
-- Little-endian 32-bit floats, so that no extension is needed to keep them.
CREATE TABLE embeddings (
    memory_id uuid NOT NULL,
    space text NOT NULL,
    content_version integer NOT NULL,
    vector bytea NOT NULL,
    PRIMARY KEY (memory_id, space)
);
-- Floats do not compress, and statistics of them help nobody.
ALTER TABLE embeddings ALTER vector SET STORAGE EXTERNAL, ALTER vector SET STATISTICS 0;

-- One row for each hit of a recall: what dreaming reads to see which memories are of use. Queries are private.
CREATE TABLE recall_signals (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    house_id uuid NOT NULL,
    principal_id uuid NOT NULL,
    memory_id uuid NOT NULL,
    query text NOT NULL,
    score real NOT NULL,
    place smallint NOT NULL,
    recalled_at timestamptz NOT NULL
);
CREATE INDEX recall_signals_memory ON recall_signals (memory_id, recalled_at);
CREATE INDEX recall_signals_principal ON recall_signals (principal_id, recalled_at);
CREATE INDEX recall_signals_age ON recall_signals (recalled_at);
ALTER TABLE recall_signals ALTER query SET STATISTICS 0;

-- What each runtime said of itself when it was last heard of, for `substrate status`. It is a report, not the truth.
CREATE TABLE runtimes (
    house_id uuid NOT NULL,
    name text NOT NULL,
    state jsonb NOT NULL,
    heard_at timestamptz NOT NULL,
    PRIMARY KEY (house_id, name)
);

-- An audited read: r is enough, because it is reading that is written down.
INSERT INTO event_rules VALUES ('MemoriesRecalled', 1, 'none');

-- The scopes that each of these credentials reaches. `number` is the seq at which the scope was made: it never changes and
-- no other scope of the house has it, so every index can use it for the scope without keeping a list.
CREATE FUNCTION replica_scopes(principals uuid[], tokens uuid[], house uuid)
RETURNS TABLE (ord bigint, scope_id uuid, rights integer, nearness integer, number bigint, until timestamptz)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
BEGIN
    RETURN QUERY
    SELECT c.ord, r.scope_id, r.rights, r.nearness,
           (SELECT min(p.from_seq) FROM placements p WHERE p.scope_id = r.scope_id),
           (SELECT t.expires_at FROM tokens t WHERE t.id = c.token)
      FROM unnest(principals, tokens) WITH ORDINALITY AS c (principal, token, ord)
     CROSS JOIN LATERAL my_rights(c.principal, c.token) r
      JOIN scopes s ON s.id = r.scope_id AND s.house_id = house;
END $$;

CREATE FUNCTION replica_readable(principals uuid[], tokens uuid[], house uuid) RETURNS uuid[]
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
    SELECT coalesce(array_agg(DISTINCT r.scope_id), '{}') FROM replica_scopes(principals, tokens, house) r WHERE r.rights & 1 = 1
$$;

-- Where the house's stream stands, for who reads anything in it: see `stream_mark`.
CREATE FUNCTION replica_mark(principals uuid[], tokens uuid[], house uuid, after bigint)
RETURNS TABLE (head bigint, hash bytea, hash_after bytea, recorded_at timestamptz, rights_version bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
BEGIN
    IF cardinality(replica_readable(principals, tokens, house)) > 0 THEN
        RETURN QUERY SELECT h.seq, h.hash, (SELECT e.hash FROM events e WHERE e.house_id = house AND e.seq = after),
                            h.recorded_at, h.rights_version
                       FROM stream_head h WHERE h.house_id = house;
    END IF;
END $$;

-- At most `most` events of these scopes, after one position and through another; all the scopes must be readable. Ids and
-- times come in the form that is
-- cheapest to read a million of: bytes, a time being microseconds since 2000. The plan is made anew for each page, because
-- only then are the scopes, of which there may be many, looked up in a hash table.
CREATE FUNCTION replica_events(principals uuid[], tokens uuid[], house uuid, wanted uuid[], after bigint, through bigint,
                               most integer)
RETURNS TABLE (seq bigint, type text, schema_version smallint, scope_id bytea, subject_id bytea, version integer,
               actor_id bytea, session_id text, occurred_at bytea, data text, body text, event_id bytea, runtime text,
               run_id text, causation_id bytea, correlation_id bytea, recorded_at bytea, hash bytea)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = substrate, pg_temp SET enable_seqscan = off
SET plan_cache_mode = force_custom_plan AS $$
BEGIN
    -- Not answered for the rest: who asks would take the silence of a scope that was lost for one in which nothing happened,
    -- move on, and miss it for good should the scope come back.
    IF NOT wanted <@ replica_readable(principals, tokens, house) THEN
        PERFORM refuse('not_found', 'a scope that was asked for is out of reach');
    END IF;
    RETURN QUERY
    SELECT e.seq, e.type, e.schema_version, uuid_send(e.scope_id), uuid_send(e.subject_id), e.version,
           uuid_send(e.actor_id), e.session_id, timestamptz_send(e.occurred_at), e.data, e.body, uuid_send(e.event_id),
           e.runtime, e.run_id, uuid_send(e.causation_id), uuid_send(e.correlation_id), timestamptz_send(e.recorded_at), e.hash
      FROM events e
     WHERE e.house_id = house AND e.seq > after AND e.seq <= through AND e.scope_id = ANY (wanted)
     ORDER BY e.seq LIMIT most;
END $$;

-- All events of some memories, for who folds these anew: by the index on the subject, not through the stream.
CREATE FUNCTION replica_subjects(principals uuid[], tokens uuid[], house uuid, subjects uuid[], through bigint)
RETURNS TABLE (seq bigint, type text, schema_version smallint, scope_id bytea, subject_id bytea, version integer,
               actor_id bytea, session_id text, occurred_at bytea, data text, body text, event_id bytea, runtime text,
               run_id text, causation_id bytea, correlation_id bytea, recorded_at bytea, hash bytea)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = substrate, pg_temp SET enable_seqscan = off AS $$
DECLARE
    visible uuid[] := replica_readable(principals, tokens, house);
BEGIN
    RETURN QUERY
    SELECT e.seq, e.type, e.schema_version, uuid_send(e.scope_id), uuid_send(e.subject_id), e.version,
           uuid_send(e.actor_id), e.session_id, timestamptz_send(e.occurred_at), e.data, e.body, uuid_send(e.event_id),
           e.runtime, e.run_id, uuid_send(e.causation_id), uuid_send(e.correlation_id), timestamptz_send(e.recorded_at), e.hash
      FROM events e
     WHERE e.subject_id = ANY (subjects) AND e.house_id IS NOT DISTINCT FROM house AND e.seq <= through
       AND e.scope_id = ANY (visible)
     ORDER BY e.seq;
END $$;

-- A number that two copies of a memory share when they say the same. It finds damage; it is no proof.
CREATE FUNCTION memory_check(m memories) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT ('x' || encode(substr(sha256(convert_to(concat_ws('|', encode(uuid_send(m.id), 'hex'), m.version, m.status, m.tier, m.content, m.title,
            m.description, m.key), 'UTF8')), 1, 4), 'hex'))::bit(32)::bigint
$$;

-- How many memories each readable scope holds, and the sum of their checks: what an index is compared with.
CREATE FUNCTION replica_digests(principals uuid[], tokens uuid[], house uuid)
RETURNS TABLE (scope_id uuid, memories bigint, checks numeric, head bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
BEGIN
    RETURN QUERY
    SELECT v.scope_id, count(m.id), coalesce(sum(memory_check(m)) FILTER (WHERE m.id IS NOT NULL), 0), (SELECT h.seq FROM stream_head h WHERE h.house_id = house)
      FROM unnest(replica_readable(principals, tokens, house)) AS v (scope_id)
      LEFT JOIN memories m ON m.parent_id = v.scope_id GROUP BY v.scope_id;
END $$;

-- The check of each memory of one scope, in pages by id.
CREATE FUNCTION replica_checks(principals uuid[], tokens uuid[], house uuid, scope uuid, after uuid, most integer)
RETURNS TABLE (memory_id uuid, version integer, checked bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
BEGIN
    IF scope = ANY (replica_readable(principals, tokens, house)) THEN
        RETURN QUERY SELECT m.id, m.version, memory_check(m) FROM memories m
                      WHERE m.parent_id = scope AND m.id > after ORDER BY m.id LIMIT most;
    END IF;
END $$;

-- The vectors of a space that are there for these memories, as far as they may be read.
CREATE FUNCTION read_embeddings(principals uuid[], tokens uuid[], house uuid, of_space text, memories uuid[])
RETURNS TABLE (memory_id uuid, content_version integer, vector bytea)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = substrate, pg_temp SET enable_seqscan = off AS $$
DECLARE
    visible uuid[] := replica_readable(principals, tokens, house);
BEGIN
    -- Each by its primary key, whatever the planner believes (OFFSET 0 keeps it from joining otherwise): just after a bulk
    -- import its statistics are those of an empty table, and it would read a scope's memories once for every vector.
    RETURN QUERY
    SELECT x.memory_id, x.content_version, x.vector
      FROM unnest(read_embeddings.memories) AS w (id)
     CROSS JOIN LATERAL (SELECT m.parent_id FROM memories m WHERE m.id = w.id OFFSET 0) m
     CROSS JOIN LATERAL (SELECT e.memory_id, e.content_version, e.vector FROM embeddings e
                          WHERE e.memory_id = w.id AND e.space = of_space OFFSET 0) x
     WHERE m.parent_id = ANY (visible);
END $$;

-- Keep vectors that somebody computed, and answer with those that stand: of two for the same text the first one stays, so
-- that all runtimes have the same. Only for the text as it is now, and only where one may write: a reader's word about
-- somebody else's memory is not taken. Locked against an erasure under way, which else would miss what comes after it.
CREATE FUNCTION store_embeddings(principals uuid[], tokens uuid[], house uuid, of_space text, ids uuid[], versions integer[],
                                 vectors bytea[])
RETURNS TABLE (memory_id uuid, content_version integer, vector bytea)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    writable uuid[] := ARRAY(SELECT r.scope_id FROM replica_scopes(principals, tokens, house) r WHERE r.rights & 3 = 3);
BEGIN
    INSERT INTO embeddings AS x (memory_id, space, content_version, vector)
    SELECT m.id, of_space, u.version, u.vector
      FROM unnest(ids, versions, vectors) AS u (id, version, vector)
      JOIN memories m ON m.id = u.id AND m.content_version = u.version AND m.status <> 'erased'
       AND m.parent_id = ANY (writable)
     ORDER BY m.id
       FOR SHARE OF m
    ON CONFLICT (memory_id, space) DO UPDATE SET content_version = excluded.content_version, vector = excluded.vector
     WHERE x.content_version < excluded.content_version;
    RETURN QUERY SELECT r.memory_id, r.content_version, r.vector
                   FROM read_embeddings(principals, tokens, house, of_space, ids) r;
END $$;

-- How many memories that can be embedded there are, and how many have their vector of a space.
CREATE FUNCTION embedding_progress(principals uuid[], tokens uuid[], house uuid, of_space text)
RETURNS TABLE (memories bigint, embedded bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
BEGIN
    RETURN QUERY
    SELECT count(*), count(x.memory_id) FROM memories m
      LEFT JOIN embeddings x ON x.memory_id = m.id AND x.space = of_space AND x.content_version = m.content_version
     WHERE m.parent_id IN (SELECT unnest(replica_readable(principals, tokens, house))) AND m.status <> 'erased';
END $$;

-- What was recalled, by whom, for which query. Only of memories that the principal may read.
CREATE FUNCTION record_signals(principal uuid, token uuid, house uuid, ids uuid[], queries text[], scores real[],
                               places smallint[], times timestamptz[]) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp SET enable_seqscan = off AS $$
DECLARE
    visible uuid[] := replica_readable(ARRAY[principal], ARRAY[token], house);
    written bigint;
BEGIN
    INSERT INTO recall_signals (house_id, principal_id, memory_id, query, score, place, recalled_at)
    SELECT house, principal, m.id, u.query, u.score, u.place, u.at
      FROM unnest(ids, queries, scores, places, times) AS u (id, query, score, place, at)
      JOIN memories m ON m.id = u.id AND m.parent_id = ANY (visible) AND m.status <> 'erased'
       FOR SHARE OF m;
    GET DIAGNOSTICS written = ROW_COUNT;
    RETURN written;
END $$;

-- Signals have a time after which they are of no use. For the operator.
CREATE FUNCTION prune_signals(before timestamptz) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
DECLARE
    gone bigint;
BEGIN
    IF login_kind() IS DISTINCT FROM 'app' THEN
        PERFORM refuse('denied', 'only the operator prunes signals');
    END IF;
    DELETE FROM recall_signals s WHERE s.recalled_at < before;
    GET DIAGNOSTICS gone = ROW_COUNT;
    RETURN gone;
END $$;

CREATE FUNCTION report_runtime(principals uuid[], tokens uuid[], house uuid, named text, said jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
BEGIN
    IF cardinality(replica_readable(principals, tokens, house)) > 0 AND length(named) <= 200 AND pg_column_size(said) < 65536 THEN
        INSERT INTO runtimes AS r VALUES (house, named, said, clock_timestamp())
        ON CONFLICT (house_id, name) DO UPDATE SET state = excluded.state, heard_at = excluded.heard_at;
    END IF;
END $$;

-- Every runtime that was ever heard of, with the head it is compared with; for the operator. Reports hold no text.
CREATE FUNCTION runtime_reports()
RETURNS TABLE (house_id uuid, house text, head bigint, name text, state jsonb, heard_at timestamptz, silent_for double precision)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
    SELECT r.house_id, s.name, h.seq, r.name, r.state, r.heard_at,
           extract(epoch FROM clock_timestamp() - r.heard_at)::double precision
      FROM runtimes r JOIN scopes s ON s.id = r.house_id JOIN stream_head h ON h.house_id = r.house_id
     WHERE login_kind() = 'app' ORDER BY s.created_at, r.house_id, r.name
$$;

-- As before, and with the text go its vectors and what was asked when it was found.
CREATE OR REPLACE FUNCTION erase_text(house uuid, subjects uuid[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp SET enable_seqscan = off AS $$
BEGIN
    UPDATE events SET body = NULL, salt = NULL
     WHERE subject_id = ANY (subjects) AND house_id IS NOT DISTINCT FROM house AND body IS NOT NULL;
    UPDATE proposals SET status = 'withdrawn' WHERE memory_id = ANY (subjects) AND house_id IS NOT DISTINCT FROM house AND status = 'pending';
    DELETE FROM embeddings WHERE memory_id = ANY (subjects);
    DELETE FROM recall_signals WHERE memory_id = ANY (subjects);
END $$;

-- Who is erased as a person takes along what they asked.
CREATE FUNCTION erase_queries() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
BEGIN
    DELETE FROM recall_signals WHERE principal_id = NEW.id;
    RETURN NULL;
END $$;
CREATE TRIGGER erase_queries AFTER UPDATE ON scopes FOR EACH ROW
    WHEN (NEW.status = 'erased' AND OLD.status <> 'erased') EXECUTE FUNCTION erase_queries();

-- Row-level security, as everywhere: see 0001_policies.sql.
ALTER TABLE embeddings ENABLE ROW LEVEL SECURITY;
ALTER TABLE embeddings FORCE ROW LEVEL SECURITY;
CREATE POLICY owner_all ON embeddings TO CURRENT_USER USING (true) WITH CHECK (true);
CREATE POLICY readable ON embeddings FOR SELECT USING (EXISTS (SELECT FROM memories m WHERE m.id = memory_id));

-- What somebody asked is theirs alone, also where the memory is shared.
ALTER TABLE recall_signals ENABLE ROW LEVEL SECURITY;
ALTER TABLE recall_signals FORCE ROW LEVEL SECURITY;
CREATE POLICY owner_all ON recall_signals TO CURRENT_USER USING (true) WITH CHECK (true);
CREATE POLICY readable ON recall_signals FOR SELECT USING (
    principal_id = nullif(current_setting('substrate.principal', true), '')::uuid
        AND principal_id = ANY ((SELECT visible_scopes())::uuid[]));

ALTER TABLE runtimes ENABLE ROW LEVEL SECURITY;
ALTER TABLE runtimes FORCE ROW LEVEL SECURITY;
CREATE POLICY owner_all ON runtimes TO CURRENT_USER USING (true) WITH CHECK (true);
