-- Reading the stream, verifying it, and moving a house from one database to another.

-- The last position at or before a time. Time and seq agree, so this halves the stream until it is found: some twenty
-- look-ups by primary key at a million events, and no index on time for every append to keep.
CREATE FUNCTION position_at(principal uuid, token uuid, house uuid, t timestamptz) RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = substrate, pg_temp SET enable_seqscan = off AS $$
DECLARE
    low bigint := 0; high bigint; middle bigint;
BEGIN
    IF principal IS NULL AND login_kind() IS DISTINCT FROM 'app' OR principal IS NOT NULL AND NOT EXISTS (
        SELECT FROM my_rights(principal, token) r JOIN scopes s ON s.id = r.scope_id WHERE s.house_id = house) THEN
        PERFORM refuse('not_found', 'no such house');
    END IF;
    high := coalesce((SELECT h.seq FROM stream_head h WHERE h.house_id = house), 0);
    WHILE low < high LOOP
        middle := (low + high + 1) / 2;
        IF (SELECT e.recorded_at FROM events e WHERE e.house_id = house AND e.seq = middle) <= t THEN
            low := middle;
        ELSE
            high := middle - 1;
        END IF;
    END LOOP;
    RETURN low;
END $$;

-- Where a house's stream stands: how far a reader at `after` may read, the hash it should have seen there (another one
-- means the log was rewritten or restored), and the version of the rights. No principal means the operator.
CREATE FUNCTION stream_mark(principal uuid, token uuid, house uuid, after bigint)
RETURNS TABLE (head bigint, hash bytea, hash_after bytea, recorded_at timestamptz, rights_version bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
BEGIN
    IF principal IS NULL AND login_kind() IS DISTINCT FROM 'app' OR principal IS NOT NULL AND NOT EXISTS (
        SELECT FROM my_rights(principal, token) r JOIN scopes s ON s.id = r.scope_id WHERE s.house_id = house) THEN
        RETURN;
    END IF;
    RETURN QUERY SELECT h.seq, h.hash, (SELECT e.hash FROM events e WHERE e.house_id = house AND e.seq = after),
                        h.recorded_at, h.rights_version
                   FROM stream_head h WHERE h.house_id = house;
END $$;

-- The events after one position and through another that this principal may read. The caller's checkpoint moves to
-- `through` even where nothing was visible.
CREATE FUNCTION read_stream(principal uuid, token uuid, house uuid, after bigint, through bigint)
RETURNS SETOF events
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = substrate, pg_temp SET enable_seqscan = off AS $$
DECLARE
    visible uuid[] := ARRAY(SELECT r.scope_id FROM my_rights(principal, token) r WHERE r.rights & 1 = 1);
BEGIN
    RETURN QUERY SELECT e.* FROM events e
                  WHERE e.house_id = house AND e.seq > after AND e.seq <= through AND e.scope_id = ANY (visible)
                  ORDER BY e.seq;
END $$;

-- May this caller check a whole house? The operator (the application's own login without a principal), or who holds x on it.
CREATE FUNCTION may_audit(principal uuid, token uuid, house uuid) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
    SELECT CASE WHEN principal IS NULL THEN login_kind() = 'app' ELSE EXISTS (
        SELECT FROM my_rights(principal, token) r WHERE r.scope_id = house AND r.rights & 4 = 4) END
$$;

-- Text as its digest, so that a house can be verified by someone who may not read it. The digest is of the JSON text of
-- the value, which `substrate.world.canonical` writes the same way.
CREATE FUNCTION digest_of(value json) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT encode(sha256(convert_to(value::text, 'UTF8')), 'hex')
$$;

-- NULL for what is not a JSON object: `verify` names it, and goes on.
CREATE FUNCTION body_digest(body text) RETURNS text
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT coalesce(json_object_agg(b.key, CASE json_typeof(b.value)
                       WHEN 'array' THEN coalesce((SELECT json_agg(digest_of(v) ORDER BY n)
                                                     FROM json_array_elements(b.value) WITH ORDINALITY AS a (v, n)), '[]')
                       WHEN 'string' THEN to_json(digest_of(b.value)) ELSE b.value END), '{}')::text
              FROM json_each(body::json) b);
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
    RETURN NULL;
END $$;

CREATE FUNCTION array_digest(value text[]) RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT ARRAY(SELECT digest_of(to_json(v)) FROM unnest(value) WITH ORDINALITY AS a (v, n) ORDER BY n)
$$;

-- The whole chain of a house, with digests in the place of text, and whether each commitment still fits its text (NULL
-- where both text and salt are gone).
CREATE FUNCTION read_chain(principal uuid, token uuid, house uuid, after bigint, most integer)
RETURNS TABLE (seq bigint, event_id uuid, scope_id uuid, subject_id uuid, version integer, type text,
               schema_version smallint, actor_id uuid, runtime text, session_id text, run_id text, causation_id uuid,
               correlation_id uuid, data text, body text, commitment bytea, occurred_at timestamptz,
               recorded_at timestamptz, prev_hash bytea, hash bytea, committed boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = substrate, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF may_audit(principal, token, house) THEN
        RETURN QUERY SELECT e.seq, e.event_id, e.scope_id, e.subject_id, e.version, e.type, e.schema_version, e.actor_id,
            e.runtime, e.session_id, e.run_id, e.causation_id, e.correlation_id, e.data,
            -- Text that no longer fits its commitment may be anything, so it is not parsed.
            CASE WHEN sha256(e.salt || convert_to(e.body, 'UTF8')) = e.commitment THEN body_digest(e.body) END,
            e.commitment, e.occurred_at, e.recorded_at, e.prev_hash, e.hash,
            CASE WHEN e.body IS NOT NULL OR e.salt IS NOT NULL
                 THEN coalesce(sha256(e.salt || convert_to(e.body, 'UTF8')) = e.commitment, false) END
            FROM events e WHERE e.house_id = house AND e.seq > after ORDER BY e.seq LIMIT most;
    END IF;
END $$;

-- The stream of a house with its text, for a copy of it, by who holds x on it. Text of scopes that the caller may not
-- read is withheld: commitment and chain come along without it. Names of scopes are known to who manages them.
CREATE FUNCTION export_events(principal uuid, token uuid, house uuid, after bigint, most integer)
RETURNS TABLE (seq bigint, event_id uuid, scope_id uuid, subject_id uuid, version integer, type text,
               schema_version smallint, actor_id uuid, runtime text, session_id text, run_id text, causation_id uuid,
               correlation_id uuid, data text, body text, salt bytea, commitment bytea, occurred_at timestamptz,
               recorded_at timestamptz, prev_hash bytea, hash bytea, withheld boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = substrate, pg_temp SET enable_seqscan = off AS $$
DECLARE
    visible uuid[] := ARRAY(SELECT r.scope_id FROM my_rights(principal, token) r WHERE r.rights & 1 = 1);
BEGIN
    IF principal IS NOT NULL AND may_audit(principal, token, house) THEN
        RETURN QUERY SELECT e.seq, e.event_id, e.scope_id, e.subject_id, e.version, e.type, e.schema_version, e.actor_id,
            e.runtime, e.session_id, e.run_id, e.causation_id, e.correlation_id, e.data,
            CASE WHEN NOT h.hidden THEN e.body END, CASE WHEN NOT h.hidden THEN e.salt END, e.commitment, e.occurred_at,
            e.recorded_at, e.prev_hash, e.hash, h.hidden
            FROM events e
            CROSS JOIN LATERAL (SELECT e.body IS NOT NULL AND e.body <> '{}' AND e.scope_id <> ALL (visible)
                                   AND e.type NOT IN ('ScopeCreated', 'ScopeRenamed') AS hidden) h
            WHERE e.house_id = house AND e.seq > after ORDER BY e.seq LIMIT most;
    END IF;
END $$;

-- The rows of a house as they are stored, as JSON, text as digests: what a replay is compared with. A row belongs to the
-- house by its own word or by what it hangs on: permission asks no row for its house, so one that names another house
-- would work here and be seen nowhere.
CREATE FUNCTION read_records(principal uuid, token uuid, house uuid, what text)
RETURNS TABLE (ident text, record json)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
DECLARE
    within uuid[] := ARRAY(SELECT s.id FROM scopes s WHERE s.house_id = house);
BEGIN
    IF NOT may_audit(principal, token, house) THEN
        RETURN;
    END IF;
    CASE what
        WHEN 'head' THEN
            RETURN QUERY SELECT h.house_id::text, to_json(x) FROM stream_head h, LATERAL (
                SELECT h.seq, encode(h.hash, 'hex') AS hash, h.recorded_at, h.limited) x WHERE h.house_id = house;
        WHEN 'memories' THEN
            RETURN QUERY SELECT m.id::text, to_json(x) FROM memories m, LATERAL (
                SELECT m.id, m.house_id, m.parent_id, digest_of(to_json(m.key)) AS key, m.kind,
                       digest_of(to_json(m.title)) AS title, digest_of(to_json(m.description)) AS description,
                       digest_of(to_json(m.content)) AS content, array_digest(m.tags) AS tags,
                       array_digest(m.concept_tags) AS concept_tags, m.category, m.tier, m.confidence, m.valid_from,
                       m.valid_to, m.point_in_time, m.expires_at, m.status, m.superseded_by, m.taught_by, m.held,
                       m.reinforcements, m.version, m.content_version, m.learned_at, m.updated_at) x
                WHERE m.house_id = house OR m.parent_id = ANY (within);
        WHEN 'scopes' THEN
            RETURN QUERY SELECT s.id::text, to_json(x) FROM scopes s, LATERAL (
                SELECT s.id, s.house_id, s.kind, s.parent_id, digest_of(to_json(s.name)) AS name, s.human, s.settings,
                       s.status, s.version, s.created_at, s.updated_at) x WHERE s.house_id = house OR s.parent_id = ANY (within);
        WHEN 'placements' THEN
            RETURN QUERY SELECT concat_ws(' ', p.scope_id, p.from_seq), to_json(p) FROM placements p
                          WHERE p.house_id = house OR p.scope_id = ANY (within);
        WHEN 'grants' THEN
            RETURN QUERY SELECT concat_ws(' ', g.scope_id, g.grantee_id, g.from_seq), to_json(g) FROM grants g
                          WHERE g.house_id = house OR g.scope_id = ANY (within) OR g.grantee_id = ANY (within);
        WHEN 'tokens' THEN
            RETURN QUERY SELECT t.id::text, to_json(x) FROM tokens t, LATERAL (
                SELECT t.id, t.house_id, t.principal_id, t.rights, t.issued_at, t.expires_at, t.revoked_at) x
                WHERE t.house_id = house OR t.principal_id = ANY (within);
        WHEN 'links' THEN
            RETURN QUERY SELECT concat_ws(' ', l.from_id, l.relation, l.to_id), to_json(l) FROM links l
                          WHERE l.house_id = house OR l.from_id IN (SELECT m.id FROM memories m WHERE m.house_id = house);
        WHEN 'proposals' THEN
            RETURN QUERY SELECT q.id::text, to_json(q) FROM proposals q
                          WHERE q.house_id = house OR q.to_scope = ANY (within);
        WHEN 'derivations' THEN
            RETURN QUERY SELECT concat_ws(' ', d.memory_id, d.source_id, d.source_version), to_json(d) FROM derivations d
                          WHERE d.house_id = house OR d.memory_id IN (SELECT m.id FROM memories m WHERE m.house_id = house);
    END CASE;
END $$;

-- What the proposers of waiting promotions chose to show, for those who may approve them and for themselves.
CREATE FUNCTION read_proposals(principal uuid, token uuid, wanted text, just uuid)
RETURNS TABLE (id uuid, memory_id uuid, memory_version integer, to_scope uuid, proposed_by uuid, status text,
               decided_by uuid, promoted_id uuid, proposed_at timestamptz, decided_at timestamptz,
               schema_version smallint, data text, body text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
BEGIN
    RETURN QUERY SELECT q.id, q.memory_id, q.memory_version, q.to_scope, q.proposed_by, q.status, q.decided_by,
                        q.promoted_id, q.proposed_at, q.decided_at, e.schema_version, e.data, e.body
                   FROM proposals q LEFT JOIN events e ON e.event_id = q.id AND e.house_id IS NOT DISTINCT FROM q.house_id
                  WHERE (wanted IS NULL OR q.status = wanted) AND (just IS NULL OR q.id = just)
                    AND (q.to_scope IN (SELECT r.scope_id FROM my_rights(principal, token) r WHERE r.rights & 4 = 4)
                         OR q.proposed_by = principal AND credential_mask(principal, token) & 1 = 1)
                  ORDER BY q.proposed_at;
END $$;

-- What an agent could do at a position; for who may audit the house that agent lives in.
CREATE FUNCTION rights_at(principal uuid, token uuid, house uuid, agent uuid, at bigint)
RETURNS TABLE (scope_id uuid, rights integer, nearness integer)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
BEGIN
    IF may_audit(principal, token, house)
       AND EXISTS (SELECT FROM scopes s WHERE s.id = agent AND s.house_id = house AND s.kind = 'agent') THEN
        RETURN QUERY SELECT r.scope_id, r.rights, r.nearness FROM rights_of(ARRAY[agent], at) r;
    END IF;
END $$;

-- What a source did beyond the caller's reach: how many of its events stand in scopes where the caller does not hold r
-- and x, and how many memories of such scopes were derived from what it touched. Two numbers, nothing else about them.
-- Besides, the memories out of sight that something within reach was derived from, from the version at which the source
-- touched them: the caller reads these ids in the evidence of its own memories, and learns here that they are tainted.
CREATE FUNCTION retraction_reach(principal uuid, token uuid, house uuid, by text, value text)
RETURNS TABLE (events bigint, derived bigint, source_ids uuid[], source_versions integer[])
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = substrate, pg_temp SET enable_seqscan = off AS $$
DECLARE
    mine uuid[]; seen uuid[]; seqs bigint[]; subjects uuid[]; versions integer[]; places uuid[];
BEGIN
    SELECT array_agg(r.scope_id) FILTER (WHERE r.rights & 5 = 5), array_agg(r.scope_id) FILTER (WHERE r.rights & 1 = 1)
      INTO mine, seen FROM my_rights(principal, token) r JOIN scopes s ON s.id = r.scope_id WHERE s.house_id = house;
    IF seen IS NULL THEN
        RETURN;
    END IF;
    mine := coalesce(mine, '{}');
    CASE by
        WHEN 'session' THEN seqs := ARRAY(SELECT e.seq FROM events e WHERE e.house_id = house AND e.session_id = value);
        WHEN 'run' THEN seqs := ARRAY(SELECT e.seq FROM events e WHERE e.house_id = house AND e.run_id = value);
        WHEN 'runtime' THEN seqs := ARRAY(SELECT e.seq FROM events e WHERE e.house_id = house AND e.runtime = value);
        WHEN 'import' THEN seqs := ARRAY(SELECT e.seq FROM events e WHERE e.house_id = house AND e.correlation_id = value::uuid);
        WHEN 'agent' THEN seqs := ARRAY(SELECT e.seq FROM events e WHERE e.actor_id = value::uuid
                                           AND e.house_id IS NOT DISTINCT FROM house);
        WHEN 'range' THEN seqs := ARRAY(SELECT e.seq FROM events e WHERE e.house_id = house
            AND e.seq BETWEEN split_part(value, '..', 1)::bigint AND split_part(value, '..', 2)::bigint);
    END CASE;
    SELECT array_agg(e.subject_id), array_agg(e.version), array_agg(e.scope_id) INTO subjects, versions, places
      FROM events e WHERE e.house_id = house AND e.seq = ANY (seqs) AND e.version IS NOT NULL
       AND (e.type LIKE 'Memor%' OR e.type = 'TierChanged')
       AND e.type NOT IN ('MemoryErased', 'MemoryHeld', 'MemoryReleased');
    RETURN QUERY
    WITH RECURSIVE tainted AS (
        SELECT u.subject AS memory_id, min(u.version) AS from_version, true AS direct
          FROM unnest(subjects, versions) AS u (subject, version) GROUP BY u.subject
        UNION
        SELECT d.memory_id, 1, false FROM tainted t
          JOIN derivations d ON d.source_id = t.memory_id AND d.source_version >= t.from_version
    ), placed AS MATERIALIZED (
        SELECT t.memory_id, min(t.from_version) AS from_version, bool_or(t.direct) AS direct, m.parent_id
          FROM tainted t JOIN memories m ON m.id = t.memory_id GROUP BY t.memory_id, m.parent_id
    ), sources AS MATERIALIZED (
        SELECT p.memory_id, p.from_version FROM placed p
         WHERE p.parent_id <> ALL (seen) AND EXISTS (
            SELECT FROM derivations d JOIN memories m ON m.id = d.memory_id
             WHERE d.source_id = p.memory_id AND m.parent_id = ANY (mine))
    )
    SELECT (SELECT count(*) FROM unnest(places) AS u (place) WHERE u.place <> ALL (mine)),
           (SELECT count(*) FROM placed p WHERE NOT p.direct AND p.parent_id <> ALL (mine)),
           (SELECT coalesce(array_agg(s.memory_id ORDER BY s.memory_id), '{}') FROM sources s),
           (SELECT coalesce(array_agg(s.from_version ORDER BY s.memory_id), '{}') FROM sources s);
END $$;

-- What an erasure would reach: ids, scopes and states, never text, and how many events still hold text. Only what the
-- caller manages or reads; the rest is not there for it. By memory (`value` holds ids); by session, run or runtime, or by
-- the agent who acted: each memory to which that source gave any text (an empty body gave none); by person: that, and
-- all in the person's own scope; `derived`: what was made of these memories, as derived, promoted or put in their place.
CREATE FUNCTION erasure_targets(principal uuid, token uuid, house uuid, by text, value text[])
RETURNS TABLE (memory_id uuid, parent_id uuid, version integer, status text, held boolean, texts integer, permitted boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = substrate, pg_temp SET enable_seqscan = off AS $$
DECLARE
    subjects uuid[];
BEGIN
    CASE by
        WHEN 'memory' THEN subjects := value::uuid[];
        WHEN 'session' THEN subjects := ARRAY(SELECT DISTINCT e.subject_id FROM events e
            WHERE e.house_id = house AND e.session_id = ANY (value) AND e.body <> '{}');
        WHEN 'run' THEN subjects := ARRAY(SELECT DISTINCT e.subject_id FROM events e
            WHERE e.house_id = house AND e.run_id = ANY (value) AND e.body <> '{}');
        WHEN 'runtime' THEN subjects := ARRAY(SELECT DISTINCT e.subject_id FROM events e
            WHERE e.house_id = house AND e.runtime = ANY (value) AND e.body <> '{}');
        WHEN 'agent', 'person' THEN subjects := ARRAY(
            SELECT e.subject_id FROM events e
             WHERE e.actor_id = ANY (value::uuid[]) AND e.house_id IS NOT DISTINCT FROM house AND e.body <> '{}'
            UNION SELECT m.id FROM memories m WHERE m.taught_by = ANY (value::uuid[])
            UNION SELECT m.id FROM memories m WHERE by = 'person' AND m.parent_id = ANY (value::uuid[]));
        WHEN 'derived' THEN subjects := ARRAY(
            WITH RECURSIVE made AS (
                SELECT unnest(value::uuid[]) AS id
                UNION
                SELECT next.id FROM made CROSS JOIN LATERAL (
                    SELECT d.memory_id AS id FROM derivations d WHERE d.source_id = made.id
                    UNION ALL SELECT q.promoted_id FROM proposals q WHERE q.memory_id = made.id AND q.promoted_id IS NOT NULL
                    UNION ALL SELECT m.superseded_by FROM memories m WHERE m.id = made.id AND m.superseded_by IS NOT NULL) next)
            SELECT made.id FROM made WHERE made.id <> ALL (value::uuid[]));
    END CASE;
    -- Rights and holds are those of the scope: asked once for each, not for each memory.
    RETURN QUERY
    WITH hit AS MATERIALIZED (
        SELECT m.id, m.parent_id, m.version, m.status, m.held FROM memories m WHERE m.id = ANY (subjects) AND m.house_id = house
    ), place AS MATERIALIZED (
        SELECT p.parent_id,
               EXISTS (SELECT FROM chain_of(ARRAY[p.parent_id], 9223372036854775806) c WHERE c.legal_hold) AS held,
               CASE WHEN principal IS NULL THEN login_kind() = 'app' ELSE manages(principal, token, p.parent_id) END AS managed,
               p.parent_id IN (SELECT r.scope_id FROM my_rights(principal, token) r WHERE r.rights & 1 = 1) AS readable
          FROM (SELECT DISTINCT h.parent_id FROM hit h) p
    )
    SELECT h.id, h.parent_id, h.version, h.status::text, h.held OR p.held,
           (SELECT count(*)::integer FROM events e WHERE e.subject_id = h.id AND e.body <> '{}'), p.managed
      FROM hit h JOIN place p ON p.parent_id = h.parent_id
     WHERE p.managed OR p.readable ORDER BY h.id;
END $$;

-- What the operator's sweep will do: forget what has expired by itself, and forget or erase what has outlived the
-- retention of its scope (its own setting, or else that of the nearest scope above). Never an instruction, nor what is held.
CREATE FUNCTION retention_due(house uuid, most integer)
RETURNS TABLE (memory_id uuid, parent_id uuid, version integer, action text, cause text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
BEGIN
    IF login_kind() IS DISTINCT FROM 'app' THEN
        RETURN;
    END IF;
    RETURN QUERY
    WITH kept AS MATERIALIZED (
        SELECT s.id, (rule.settings ->> 'retention_days')::integer AS days,
               coalesce(rule.settings ->> 'retention_action', 'forget') AS action
          FROM scopes s
          LEFT JOIN LATERAL (
              SELECT above.settings FROM chain_of(ARRAY[s.id], 9223372036854775806) c JOIN scopes above ON above.id = c.scope_id
               WHERE above.settings ? 'retention_days' ORDER BY c.depth LIMIT 1) rule ON true
         WHERE s.house_id = house
           AND NOT EXISTS (SELECT FROM chain_of(ARRAY[s.id], 9223372036854775806) c WHERE c.legal_hold)
    ), due AS (
        SELECT m.id, m.parent_id, m.version, k.action, 'retention' AS cause
          FROM kept k JOIN memories m ON m.parent_id = k.id
         WHERE m.updated_at < now() - make_interval(days => k.days) AND m.kind <> 'instruction' AND NOT m.held
           AND CASE k.action WHEN 'erase' THEN m.status <> 'erased' ELSE m.status = 'active' END
        UNION ALL
        SELECT m.id, m.parent_id, m.version, 'forget', 'expiry'
          FROM kept k JOIN memories m ON m.parent_id = k.id
         WHERE m.expires_at < now() AND m.status = 'active' AND m.kind <> 'instruction' AND NOT m.held
    )
    -- What is due twice is erased, if either says so.
    SELECT DISTINCT ON (d.id) d.id, d.parent_id, d.version, d.action, d.cause FROM due d ORDER BY d.id, d.action, d.cause
     LIMIT most;
END $$;

-- The planner's statistics keep samples of what is in a column, and would keep them after an erasure. Text has none.
ALTER TABLE memories ALTER key SET STATISTICS 0, ALTER title SET STATISTICS 0, ALTER description SET STATISTICS 0,
    ALTER content SET STATISTICS 0, ALTER tags SET STATISTICS 0, ALTER concept_tags SET STATISTICS 0;
ALTER TABLE events ALTER body SET STATISTICS 0;
ALTER TABLE scopes ALTER name SET STATISTICS 0;

-- Import: a house that is not here yet, events as they were, hashes included. One transaction: begin, pages, end.
CREATE FUNCTION import_begin(house uuid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
BEGIN
    IF login_kind() IS DISTINCT FROM 'app' THEN
        PERFORM refuse('denied', 'only the application may import a house');
    END IF;
    INSERT INTO stream_head (house_id, seq, hash, recorded_at, rights_version)
    VALUES (house, 0, decode(repeat('00', 32), 'hex'), 'epoch', 0) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        PERFORM refuse('conflict', 'this house is already here; import into a database that does not have it');
    END IF;
END $$;

CREATE FUNCTION import_rows(house uuid, what text, rows json) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
BEGIN
    -- A head that stands at 0 was made by import_begin of this transaction: nobody else can have seen it.
    IF login_kind() IS DISTINCT FROM 'app' OR NOT EXISTS (SELECT FROM stream_head h WHERE h.house_id = house AND h.seq = 0) THEN
        PERFORM refuse('denied', 'no import of this house is under way');
    END IF;
    IF EXISTS (SELECT FROM json_array_elements(rows) r WHERE (r ->> 'house_id')::uuid <> house) THEN
        PERFORM refuse('invalid_input', 'a row of another house');
    END IF;
    CASE what
        WHEN 'events' THEN INSERT INTO events SELECT * FROM json_populate_recordset(NULL::events, rows);
        WHEN 'scopes' THEN INSERT INTO scopes SELECT * FROM json_populate_recordset(NULL::scopes, rows);
        WHEN 'placements' THEN INSERT INTO placements SELECT * FROM json_populate_recordset(NULL::placements, rows);
        WHEN 'grants' THEN INSERT INTO grants SELECT * FROM json_populate_recordset(NULL::grants, rows);
        WHEN 'tokens' THEN INSERT INTO tokens SELECT * FROM json_populate_recordset(NULL::tokens, rows);
        WHEN 'memories' THEN INSERT INTO memories SELECT * FROM json_populate_recordset(NULL::memories, rows);
        WHEN 'links' THEN INSERT INTO links SELECT * FROM json_populate_recordset(NULL::links, rows);
        WHEN 'proposals' THEN INSERT INTO proposals SELECT * FROM json_populate_recordset(NULL::proposals, rows);
        WHEN 'derivations' THEN INSERT INTO derivations SELECT * FROM json_populate_recordset(NULL::derivations, rows);
    END CASE;
END $$;

CREATE FUNCTION import_end(house uuid, rights bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
DECLARE
    last events;
BEGIN
    SELECT * INTO last FROM events e WHERE e.house_id = house ORDER BY e.seq DESC LIMIT 1;
    UPDATE stream_head h SET seq = last.seq, hash = last.hash, recorded_at = last.recorded_at, rights_version = rights,
           limited = EXISTS (SELECT FROM placements p WHERE p.house_id = house
                              AND (p.memories_max IS NOT NULL OR p.writes_per_minute IS NOT NULL))
     WHERE h.house_id = house AND h.seq = 0 AND login_kind() = 'app';
    IF NOT FOUND OR last.seq IS NULL THEN
        PERFORM refuse('invalid_input', 'nothing was imported');
    END IF;
    RETURN last.seq;
END $$;

-- The houses of this database, by name and head; for the operator, who sees no text.
CREATE FUNCTION houses() RETURNS TABLE (house_id uuid, name text, seq bigint, recorded_at timestamptz, hash bytea,
                                        rights_version bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
    SELECT h.house_id, s.name, h.seq, h.recorded_at, h.hash, h.rights_version
      FROM stream_head h JOIN scopes s ON s.id = h.house_id WHERE login_kind() = 'app' ORDER BY s.created_at, s.id
$$;

-- The owners of a house, for the operator: to hand an imported house back to someone who holds x on it.
CREATE FUNCTION house_agents(house uuid) RETURNS TABLE (id uuid, name text, human boolean, owner boolean)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
    SELECT s.id, s.name, s.human, EXISTS (
               SELECT FROM rights_of(ARRAY[s.id], 9223372036854775806) r WHERE r.scope_id = house AND r.rights & 4 = 4)
      FROM scopes s
     WHERE s.house_id = house AND s.kind = 'agent' AND s.status = 'active' AND login_kind() = 'app' ORDER BY s.created_at, s.id
$$;
