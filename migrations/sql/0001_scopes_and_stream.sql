-- Scopes, permission and the stream.
--
-- Words: rights are a bit mask, r = 1, w = 2, x = 4. `forever` is the last bigint: the end of what still holds.

CREATE DOMAIN rights AS smallint CHECK (VALUE BETWEEN 0 AND 7);

-- Which database roles may come in, and as what. A role that is not here gets nothing.
-- `app` is the trusted application; a `runtime` login acts only for the agents bound to it.
CREATE TABLE logins (
    role name PRIMARY KEY,
    kind text NOT NULL CHECK (kind IN ('app', 'runtime'))
);

CREATE TABLE login_agents (
    role name NOT NULL REFERENCES logins ON DELETE CASCADE,
    agent_id uuid NOT NULL,
    PRIMARY KEY (role, agent_id)
);

CREATE TABLE scopes (
    id uuid PRIMARY KEY,
    house_id uuid NOT NULL,
    kind text NOT NULL CHECK (kind IN ('house', 'group', 'agent')),
    parent_id uuid REFERENCES scopes,
    name text,
    human boolean NOT NULL,
    settings jsonb NOT NULL,
    status text NOT NULL CHECK (status IN ('active', 'removed', 'erased')),
    version integer NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    CHECK ((kind = 'house') = (parent_id IS NULL)),
    CHECK ((kind = 'house') = (house_id = id)),
    CHECK ((status = 'erased') = (name IS NULL))
);
CREATE UNIQUE INDEX scopes_name ON scopes (parent_id, name) WHERE status = 'active';
CREATE INDEX scopes_house ON scopes (house_id);

-- Where each scope stood, and what its members might do, from one seq until another. The walk reads this and grants,
-- never `scopes`, so that permission now and permission at any earlier position are one and the same query.
CREATE TABLE placements (
    scope_id uuid NOT NULL REFERENCES scopes,
    house_id uuid NOT NULL,
    kind text NOT NULL,
    parent_id uuid,
    members rights NOT NULL,
    memories_max integer,
    writes_per_minute integer,
    legal_hold boolean NOT NULL,
    active boolean NOT NULL,
    from_seq bigint NOT NULL,
    to_seq bigint NOT NULL,
    PRIMARY KEY (scope_id, to_seq)
);
CREATE INDEX placements_house ON placements (house_id, from_seq);
CREATE INDEX placements_parent ON placements (parent_id);

CREATE TABLE grants (
    house_id uuid NOT NULL,
    scope_id uuid NOT NULL REFERENCES scopes,
    grantee_id uuid NOT NULL REFERENCES scopes,
    rights rights NOT NULL,
    from_seq bigint NOT NULL,
    to_seq bigint NOT NULL,
    PRIMARY KEY (grantee_id, scope_id, to_seq)
);
CREATE INDEX grants_scope ON grants (scope_id, to_seq);
CREATE INDEX grants_house ON grants (house_id, from_seq);

-- The digest lives here only, never on the stream: an imported house has its token rows, but no usable token.
CREATE TABLE tokens (
    id uuid PRIMARY KEY,
    house_id uuid NOT NULL,
    principal_id uuid NOT NULL REFERENCES scopes,
    hash bytea,
    rights rights NOT NULL,
    issued_at timestamptz NOT NULL,
    expires_at timestamptz,
    revoked_at timestamptz
);
CREATE INDEX tokens_principal ON tokens (principal_id);

-- One row a house, updated by every append: room on the page keeps the update off the index.
CREATE TABLE stream_head (
    house_id uuid PRIMARY KEY,
    seq bigint NOT NULL,
    hash bytea NOT NULL,
    recorded_at timestamptz NOT NULL,
    rights_version bigint NOT NULL,
    limited boolean NOT NULL DEFAULT false,
    prev_hash bytea  -- what `learn_one` found here, for the statement that moves the head to give back
) WITH (fillfactor = 10);

CREATE TABLE events (
    house_id uuid NOT NULL,
    seq bigint NOT NULL,
    event_id uuid NOT NULL,
    scope_id uuid NOT NULL,
    subject_id uuid NOT NULL,
    version integer,
    type text NOT NULL,
    schema_version smallint NOT NULL,
    actor_id uuid NOT NULL,
    runtime text,
    session_id text,
    run_id text,
    causation_id uuid,
    correlation_id uuid,
    data text NOT NULL,
    body text,
    salt bytea,
    commitment bytea NOT NULL,
    occurred_at timestamptz NOT NULL,
    recorded_at timestamptz NOT NULL,
    prev_hash bytea NOT NULL,
    hash bytea NOT NULL,
    PRIMARY KEY (house_id, seq)
);
-- Looked up as `event_id = … AND house_id IS NOT DISTINCT FROM …`: a plain equality on the house would let a plan made on
-- an empty table settle on any other index that begins with the house, and read all of it ever after.
CREATE UNIQUE INDEX events_event_id ON events (event_id, house_id);
CREATE INDEX events_subject ON events (subject_id, seq);
CREATE INDEX events_scope ON events (scope_id, seq);
CREATE INDEX events_actor ON events (actor_id, seq);
CREATE INDEX events_session ON events (house_id, session_id, seq) WHERE session_id IS NOT NULL;
CREATE INDEX events_run ON events (house_id, run_id, seq) WHERE run_id IS NOT NULL;
CREATE INDEX events_runtime ON events (house_id, runtime, seq) WHERE runtime IS NOT NULL;
CREATE INDEX events_correlation ON events (house_id, correlation_id, seq) WHERE correlation_id IS NOT NULL;


-- ---------------------------------------------------------------- permission

-- The walk: each start scope with all its ancestors, as things stood at position `at`.
-- Plain SQL without SET, so that it is inlined wherever it is used; all who use it pin their own search path.
CREATE FUNCTION chain_of(start uuid[], at bigint)
RETURNS TABLE (start_id uuid, scope_id uuid, parent_id uuid, kind text, members rights, active boolean,
               memories_max integer, writes_per_minute integer, legal_hold boolean, depth integer)
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    WITH RECURSIVE chain AS (
        SELECT p.scope_id AS start_id, p.scope_id, p.parent_id, p.kind, p.members, p.active,
               p.memories_max, p.writes_per_minute, p.legal_hold, 0 AS depth
          FROM placements p
         WHERE p.scope_id = ANY (start) AND p.to_seq > at AND p.from_seq <= at
        UNION ALL
        SELECT c.start_id, p.scope_id, p.parent_id, p.kind, p.members, p.active,
               p.memories_max, p.writes_per_minute, p.legal_hold, c.depth + 1
          FROM chain c
          JOIN placements p ON p.scope_id = c.parent_id AND p.to_seq > at AND p.from_seq <= at
    )
    SELECT c.start_id, c.scope_id, c.parent_id, c.kind, c.members, c.active,
           c.memories_max, c.writes_per_minute, c.legal_hold, c.depth
      FROM chain c
$$;

-- rights(principal) -> {scope: rwx}: everything on oneself, the members' right on each ancestor, and what grants add.
-- `nearness` orders scopes for "the nearest wins": own 0, granted rooms 1, then the ancestors upwards.
-- A principal that is not an active agent has no rights at all.
CREATE FUNCTION rights_of(principals uuid[], at bigint)
RETURNS TABLE (principal_id uuid, scope_id uuid, rights integer, nearness integer)
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    WITH chain AS MATERIALIZED (
        SELECT c.start_id, c.scope_id, c.kind, c.members, c.active, c.depth FROM chain_of(principals, at) c
    ), reach AS (
        SELECT c.start_id, c.scope_id,
               CASE c.depth WHEN 0 THEN 7 ELSE c.members::integer END AS rights,
               CASE c.depth WHEN 0 THEN 0 ELSE c.depth + 1 END AS nearness
          FROM chain c
         WHERE c.active
        UNION ALL
        SELECT c.start_id, g.scope_id, g.rights::integer, 1
          FROM chain c
          JOIN grants g ON g.grantee_id = c.scope_id AND g.to_seq > at AND g.from_seq <= at
          JOIN placements p ON p.scope_id = g.scope_id AND p.to_seq > at AND p.from_seq <= at AND p.active
    )
    SELECT r.start_id, r.scope_id, bit_or(r.rights), CASE r.scope_id WHEN r.start_id THEN 0 ELSE max(r.nearness) END
      FROM reach r
      JOIN chain self ON self.start_id = r.start_id AND self.depth = 0 AND self.kind = 'agent' AND self.active
     GROUP BY r.start_id, r.scope_id
    HAVING bit_or(r.rights) > 0
$$;

-- How the caller's database login came in: 'app', 'runtime', or NULL for a stranger.
CREATE FUNCTION login_kind() RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
    SELECT kind FROM logins WHERE role = session_user
$$;

-- The rights that a credential leaves its principal: 7, or less where the token is narrower; 0 where it is no good.
CREATE FUNCTION credential_mask(principal uuid, token uuid) RETURNS integer
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
DECLARE
    login text := (SELECT kind FROM logins WHERE role = session_user);
    mask integer := 7;
BEGIN
    IF login IS NULL OR principal IS NULL THEN
        RETURN 0;
    END IF;
    IF login = 'runtime' AND NOT EXISTS (
        SELECT FROM login_agents WHERE role = session_user AND agent_id = principal) THEN
        RETURN 0;
    END IF;
    IF token IS NOT NULL THEN
        SELECT t.rights INTO mask FROM tokens t
         WHERE t.id = token AND t.principal_id = principal AND t.revoked_at IS NULL
           AND (t.expires_at IS NULL OR t.expires_at > now());
    END IF;
    RETURN coalesce(mask, 0);
END $$;

-- What the API asks: the scopes a credential reaches, now or at an earlier position.
CREATE FUNCTION my_rights(principal uuid, token uuid, at bigint DEFAULT 9223372036854775806)
RETURNS TABLE (scope_id uuid, rights integer, nearness integer)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
DECLARE
    mask integer := credential_mask(principal, token);
BEGIN
    IF mask > 0 THEN
        RETURN QUERY SELECT r.scope_id, r.rights & mask, r.nearness
                       FROM rights_of(ARRAY[principal], at) r WHERE r.rights & mask > 0;
    END IF;
END $$;

-- The scopes on which the principal of this transaction holds a right, for row-level security. The principal is set with
-- set_config(…, true) and gone with the transaction; without one there are no scopes, and nothing is seen.
CREATE FUNCTION scopes_with(wanted integer) RETURNS uuid[]
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
BEGIN
    RETURN ARRAY(
        SELECT r.scope_id
          FROM my_rights(nullif(current_setting('substrate.principal', true), '')::uuid,
                         nullif(current_setting('substrate.token', true), '')::uuid) r
         WHERE r.rights & wanted = wanted);
END $$;

CREATE FUNCTION visible_scopes() RETURNS uuid[]
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
    SELECT scopes_with(1)
$$;

-- Those the principal manages: where it holds x, and everything below.
CREATE FUNCTION managed_scopes() RETURNS uuid[]
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
BEGIN
    RETURN ARRAY(
        WITH RECURSIVE below AS (
            SELECT unnest(scopes_with(4)) AS scope_id
            UNION
            SELECT p.scope_id FROM below b
              JOIN placements p ON p.parent_id = b.scope_id AND p.to_seq = 9223372036854775807
        )
        SELECT b.scope_id FROM below b);
END $$;

-- Who holds x on a scope or on any ancestor of it manages it: creates below it, renames, moves, removes, grants, erases.
-- Managing is not reading: a house's owner governs an agent's scope without seeing what is in it.
CREATE FUNCTION manages(principal uuid, token uuid, scope uuid) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM chain_of(ARRAY[scope], 9223372036854775806) c
          JOIN my_rights(principal, token) r ON r.scope_id = c.scope_id AND r.rights & 4 = 4);
END $$;


-- ---------------------------------------------------------------- the stream

-- Microseconds since 1970, exactly.
CREATE FUNCTION microseconds(t timestamptz) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT (extract(epoch FROM t) * 1000000)::bigint
$$;

-- One event on its way in. `record` is what its subject becomes, as `evolve` decided; NULL where no record changes.
-- `item` is the caller's unit: its `size` events are written in the order of `step`, or none is. `expected_version` 0
-- creates the record. The last three are computed here (`seal_events`), whatever a caller may have sent.
CREATE TYPE new_event AS (
    item integer, step integer, size integer, house_id uuid, event_id uuid, scope_id uuid, subject_id uuid,
    expected_version integer, type text, schema_version smallint, actor_id uuid, token_id uuid, runtime text,
    session_id text, run_id text, causation_id uuid, correlation_id uuid, data text, body text, occurred_at timestamptz,
    record json, salt bytea, commitment bytea, fixed bytea
);

-- Where an event came to stand: its seq, and the microseconds since 1970 at which it was recorded.
CREATE TYPE place AS (seq bigint, micros bigint);

CREATE FUNCTION moment(micros bigint) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT 'epoch'::timestamptz + micros * interval '1 microsecond'
$$;

-- The part of an event's hash that does not depend on its position: the fields as a JSON array of strings, one text for
-- one list of fields. `substrate.world.canonical` writes the same, and golden vectors keep the two agreed.
CREATE FUNCTION fixed_part(house_id uuid, event_id uuid, scope_id uuid, subject_id uuid, version integer, type text,
                           schema_version smallint, actor_id uuid, runtime text, session_id text, run_id text,
                           causation_id uuid, correlation_id uuid, data text, occurred_at timestamptz) RETURNS bytea
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT convert_to(array_to_json(ARRAY['v1', house_id::text, event_id::text, scope_id::text, subject_id::text,
        version::text, type, schema_version::text, actor_id::text, runtime, session_id, run_id, causation_id::text,
        correlation_id::text, data, microseconds(occurred_at)::text])::text, 'UTF8')
$$;

-- Salts of a batch are derived from one random seed: the system's random numbers are slow, and nobody learns the seed.
CREATE FUNCTION salt_of(seed bytea, ord bigint) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT substr(sha256(seed || int8send(ord)), 1, 16)
$$;

-- Everything that goes into the hashes and can be computed before the head is locked.
CREATE FUNCTION seal_events(evs new_event[]) RETURNS new_event[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
DECLARE
    seed bytea := uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid());
BEGIN
    RETURN ARRAY(
        SELECT ROW(e.item, e.step, e.size, e.house_id, e.event_id, e.scope_id, e.subject_id, e.expected_version, e.type,
                   e.schema_version, e.actor_id, e.token_id, e.runtime, e.session_id, e.run_id, e.causation_id,
                   e.correlation_id, e.data, e.body, e.occurred_at, e.record, e.new_salt,
                   sha256(e.new_salt || convert_to(e.body, 'UTF8')),
                   fixed_part(e.house_id, e.event_id, e.scope_id, e.subject_id, e.expected_version + 1, e.type,
                              e.schema_version, e.actor_id, e.runtime, e.session_id, e.run_id, e.causation_id,
                              e.correlation_id, e.data, e.occurred_at))::new_event
          FROM (SELECT x.*, salt_of(seed, x.ordinality) AS new_salt FROM unnest(evs) WITH ORDINALITY x) e
         ORDER BY e.ordinality);
END $$;

-- The only writer of `events`, and always the last step of its transaction, because from here until the commit the
-- house's head is locked and every other writer of that house waits. Do not move work below this call: with 5 ms of
-- work after the lock, throughput falls tenfold. The events come sealed and sorted by house; heads are locked in that
-- order, so two batches over the same houses cannot deadlock.
--
-- `seen_rights` are the heads' rights versions under which the caller's rights were checked. A revocation changes the
-- version under this same lock: so either it came before, and is noticed here, or it comes after this event. The
-- whole batch is then refused with SB001, and its sender tries again against the new rights.
CREATE FUNCTION chain_events(evs new_event[], seen_houses uuid[], seen_rights bigint[]) RETURNS place[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
DECLARE
    houses uuid[]; seqs bigint[]; hashes bytea[]; times bigint[]; changed boolean;
    e new_event; at integer; n integer := 0; now_at bigint;
    prevs bytea[]; chain bytea[]; places place[];
BEGIN
    SELECT array_agg(s.house_id), array_agg(s.seq), array_agg(s.hash), array_agg(microseconds(s.recorded_at)),
           bool_or(s.rights_version IS DISTINCT FROM seen_rights[array_position(seen_houses, s.house_id)])
      INTO houses, seqs, hashes, times, changed
      FROM (SELECT * FROM stream_head WHERE house_id = ANY (seen_houses) ORDER BY house_id FOR UPDATE) s;
    IF changed OR houses IS DISTINCT FROM seen_houses THEN
        RAISE EXCEPTION 'rights changed while the batch was under way' USING ERRCODE = 'SB001';
    END IF;

    now_at := microseconds(clock_timestamp());
    FOREACH e IN ARRAY evs LOOP
        n := n + 1;
        at := array_position(houses, e.house_id);
        prevs[n] := hashes[at];
        seqs[at] := seqs[at] + 1;
        times[at] := greatest(now_at, times[at] + 1);
        hashes[at] := sha256(hashes[at] || e.fixed || int8send(seqs[at]) || int8send(times[at]) || e.commitment);
        chain[n] := hashes[at];
        places[n] := (seqs[at], times[at])::place;
    END LOOP;

    INSERT INTO events (house_id, seq, event_id, scope_id, subject_id, version, type, schema_version, actor_id, runtime,
                        session_id, run_id, causation_id, correlation_id, data, body, salt, commitment,
                        occurred_at, recorded_at, prev_hash, hash)
    SELECT n.house_id, n.seq, n.event_id, n.scope_id, n.subject_id, n.expected_version + 1, n.type, n.schema_version,
           n.actor_id, n.runtime, n.session_id, n.run_id, n.causation_id, n.correlation_id, n.data, n.body, n.salt,
           n.commitment, n.occurred_at, moment(n.micros), n.prev_hash, n.hash
      FROM ROWS FROM (unnest(evs), unnest(places), unnest(prevs), unnest(chain))
        AS n (item, step, size, house_id, event_id, scope_id, subject_id, expected_version, type, schema_version,
              actor_id, token_id, runtime, session_id, run_id, causation_id, correlation_id, data, body, occurred_at,
              record, salt, commitment, fixed, seq, micros, prev_hash, hash);

    UPDATE stream_head s SET seq = u.seq, hash = u.hash, recorded_at = moment(u.micros)
      FROM unnest(houses, seqs, hashes, times) AS u (house_id, seq, hash, micros)
     WHERE s.house_id = u.house_id;
    RETURN places;
END $$;

-- A right that does not stand gets one of these answers; the API turns them into its errors.
CREATE FUNCTION refuse(status text, detail text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '%', detail USING ERRCODE = 'SB002', HINT = status;
END $$;

CREATE FUNCTION place_scope(r scopes, at bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
BEGIN
    UPDATE placements SET to_seq = at WHERE scope_id = r.id AND to_seq = 9223372036854775807;
    INSERT INTO placements (scope_id, house_id, kind, parent_id, members, memories_max, writes_per_minute, legal_hold,
                            active, from_seq, to_seq)
    VALUES (r.id, r.house_id, r.kind, r.parent_id, (r.settings ->> 'members')::rights,
            (r.settings ->> 'memories_max')::integer, (r.settings ->> 'writes_per_minute')::integer,
            coalesce((r.settings ->> 'legal_hold')::boolean, false), r.status = 'active', at, 9223372036854775807);
END $$;

-- Changes to scopes, grants and tokens: all events of the call or none. These are rare and they change rights, so the
-- head is taken first: each change is decided on what is true at its own position.
CREATE FUNCTION govern(items json) RETURNS TABLE (seq bigint, recorded_at timestamptz)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
DECLARE
    login text := (SELECT kind FROM logins WHERE role = session_user);
    evs new_event[]; e new_event; head stream_head; r scopes; old scopes; parent scopes; grantee scopes; d json;
    founding boolean := false; rights_moved boolean := false; at bigint; allowed boolean; mask integer; places place[];
    repeated bigint;
BEGIN
    SELECT array_agg(x ORDER BY x.item) INTO evs FROM json_populate_recordset(NULL::new_event, items) x;
    e := evs[1];
    IF EXISTS (SELECT FROM unnest(evs) x WHERE x.house_id <> e.house_id OR x.actor_id <> e.actor_id) THEN
        PERFORM refuse('invalid_input', 'all events of one call belong to one house and one actor');
    END IF;
    mask := credential_mask(e.actor_id, e.token_id);
    SELECT * INTO head FROM stream_head h WHERE h.house_id = e.house_id FOR UPDATE;
    IF NOT FOUND THEN
        IF login IS DISTINCT FROM 'app' OR e.type <> 'ScopeCreated' OR e.subject_id <> e.house_id THEN
            PERFORM refuse('not_found', 'no such house');
        END IF;
        founding := true;
        INSERT INTO stream_head (house_id, seq, hash, recorded_at, rights_version)
        VALUES (e.house_id, 0, decode(repeat('00', 32), 'hex'), 'epoch', 0) RETURNING * INTO head;
    ELSE
        -- Idempotency: the first event's id stands for the call, and its payload must be the same.
        SELECT o.seq INTO repeated FROM events o WHERE o.event_id = e.event_id AND o.house_id IS NOT DISTINCT FROM e.house_id;
        IF repeated IS NOT NULL THEN
            IF EXISTS (SELECT FROM unnest(evs) x LEFT JOIN events o ON o.event_id = x.event_id AND o.house_id IS NOT DISTINCT FROM x.house_id
                        WHERE o.type IS DISTINCT FROM x.type OR o.actor_id <> x.actor_id
                           OR (o.body IS NOT NULL AND (o.data, o.body) IS DISTINCT FROM (x.data, x.body))) THEN
                PERFORM refuse('idempotency_conflict', 'this event id was used before, with another payload');
            END IF;
            RETURN QUERY SELECT o.seq, o.recorded_at FROM unnest(evs) WITH ORDINALITY x
                           JOIN events o ON o.event_id = x.event_id AND o.house_id IS NOT DISTINCT FROM x.house_id ORDER BY x.ordinality;
            RETURN;
        END IF;
        IF e.actor_id = e.house_id AND login = 'app' THEN
            founding := true;  -- the house acts by its own policy: the operator's way in
        ELSIF mask = 0 THEN
            PERFORM refuse('not_authenticated', 'the token is unknown, expired or revoked');
        END IF;
    END IF;

    at := head.seq;
    FOREACH e IN ARRAY evs LOOP
        at := at + 1;
        d := e.data::json;
        r := json_populate_record(NULL::scopes, e.record);
        SELECT * INTO old FROM scopes s WHERE s.id = e.subject_id AND s.house_id = e.house_id;
        SELECT * INTO parent FROM scopes s WHERE s.id = coalesce(r.parent_id, old.parent_id) AND s.house_id = e.house_id;
        allowed := founding;
        IF NOT founding THEN
            -- A manager who may not read still may manage; a stranger gets the same answer as for a scope that is not there.
            IF e.type <> 'ScopeCreated' AND (old.id IS NULL OR NOT (
                   manages(e.actor_id, e.token_id, old.id)
                   OR EXISTS (SELECT FROM my_rights(e.actor_id, e.token_id) m WHERE m.scope_id = old.id
                                 OR old.kind = 'agent' AND m.scope_id = old.parent_id AND m.rights & 1 = 1))) THEN
                PERFORM refuse('not_found', 'no such scope');
            END IF;
            allowed := CASE e.type
                WHEN 'ScopeCreated' THEN parent.id IS NOT NULL AND manages(e.actor_id, e.token_id, parent.id)
                WHEN 'ScopeRenamed' THEN manages(e.actor_id, e.token_id, old.id)
                -- Oneself excluded: an agent cannot lift its own limits, nor walk into another room.
                WHEN 'ScopeMoved' THEN manages(e.actor_id, e.token_id, old.parent_id)
                                       AND manages(e.actor_id, e.token_id, r.parent_id)
                WHEN 'SettingsChanged' THEN manages(e.actor_id, e.token_id, coalesce(old.parent_id, old.id))
                WHEN 'ScopeRemoved' THEN manages(e.actor_id, e.token_id, coalesce(old.parent_id, old.id))
                WHEN 'ScopeErased' THEN manages(e.actor_id, e.token_id, coalesce(old.parent_id, old.id))
                -- An agent's own scope is opened by who holds x on that very scope, not by a manager above it.
                WHEN 'GrantChanged' THEN CASE WHEN old.kind = 'agent'
                    THEN (d ->> 'rights')::integer = 0 AND manages(e.actor_id, e.token_id, old.id)
                         OR EXISTS (SELECT FROM my_rights(e.actor_id, e.token_id) m WHERE m.scope_id = old.id AND m.rights & 4 = 4)
                    ELSE manages(e.actor_id, e.token_id, old.id) END
                -- A manager hands out an agent's first token; later ones only the agent itself, or the operator:
                -- who could always issue one could always read what is private. None is wider than the one it came from.
                WHEN 'TokenIssued' THEN (e.actor_id = old.id AND mask & 4 = 4 AND (d ->> 'rights')::integer & ~mask = 0) OR (
                    manages(e.actor_id, e.token_id, old.parent_id)
                    AND NOT EXISTS (SELECT FROM tokens t WHERE t.principal_id = old.id))
                WHEN 'TokenRevoked' THEN (e.actor_id = old.id AND mask & 2 = 2) OR manages(e.actor_id, e.token_id, old.parent_id)
                WHEN 'RuntimeEnrolled' THEN manages(e.actor_id, e.token_id, old.id)
                ELSE false END;
        END IF;
        IF NOT coalesce(allowed, false) THEN
            IF e.type = 'ScopeCreated' AND NOT EXISTS (
                SELECT FROM my_rights(e.actor_id, e.token_id) m WHERE m.scope_id = r.parent_id) THEN
                PERFORM refuse('not_found', 'no such scope');
            END IF;
            PERFORM refuse('denied', format('%s needs x on the scope or above it', e.type));
        END IF;

        IF e.type = 'ScopeCreated' THEN
            IF old.id IS NOT NULL THEN
                PERFORM refuse('conflict', 'a scope with this id exists');
            END IF;
            IF r.kind <> 'house' AND (parent.id IS NULL OR parent.status <> 'active' OR parent.kind = 'agent') THEN
                PERFORM refuse('invalid_input', 'a scope lives in an active house or group');
            END IF;
            INSERT INTO scopes SELECT (r).*;
        ELSIF e.type IN ('ScopeRenamed', 'ScopeMoved', 'SettingsChanged', 'ScopeRemoved', 'ScopeErased') THEN
            IF old.version IS DISTINCT FROM e.expected_version THEN
                PERFORM refuse('stale', format('%s %s', e.expected_version, old.version));
            END IF;
            IF e.type = 'ScopeRemoved' AND EXISTS (
                SELECT FROM scopes s WHERE s.parent_id = old.id AND s.status = 'active') THEN
                -- Somebody moved in since the caller looked: a scope that is closed may have nobody living in it.
                PERFORM refuse('stale', 'somebody moved in meanwhile');
            END IF;
            IF e.type = 'ScopeMoved' THEN
                IF parent.id IS NULL OR parent.status <> 'active' OR parent.kind = 'agent' THEN
                    PERFORM refuse('invalid_input', 'a scope lives in an active house or group of its own house');
                ELSIF EXISTS (SELECT FROM chain_of(ARRAY[parent.id], 9223372036854775806) c WHERE c.scope_id = old.id) THEN
                    PERFORM refuse('invalid_input', 'a scope cannot be moved below itself: that would be a cycle');
                END IF;
            END IF;
            IF e.type = 'ScopeErased' AND EXISTS (
                SELECT FROM chain_of(ARRAY[old.id], 9223372036854775806) c WHERE c.legal_hold) THEN
                PERFORM refuse('legal_hold', 'the scope is under legal hold; release the hold first');
            END IF;
            IF e.type = 'ScopeRemoved' AND EXISTS (SELECT FROM placements p WHERE p.parent_id = old.id AND p.active
                                                      AND p.to_seq = 9223372036854775807) THEN
                -- Whoever removes a scope removes what is below it first; this is what came in between.
                PERFORM refuse('stale', 'something lives below this scope');
            END IF;
            UPDATE scopes s SET parent_id = r.parent_id, name = r.name, settings = r.settings, status = r.status,
                                version = r.version, updated_at = r.updated_at
             WHERE s.id = old.id;
        END IF;

        CASE e.type
            WHEN 'ScopeCreated', 'ScopeMoved', 'SettingsChanged', 'ScopeRemoved' THEN
                PERFORM place_scope(r, at);
                rights_moved := true;
                IF r.settings ?| ARRAY['memories_max', 'writes_per_minute'] THEN
                    UPDATE stream_head h SET limited = true WHERE h.house_id = e.house_id;
                END IF;
            WHEN 'ScopeErased' THEN
                UPDATE events o SET body = NULL, salt = NULL WHERE o.subject_id = old.id AND o.house_id IS NOT DISTINCT FROM e.house_id
                   AND o.type IN ('ScopeCreated', 'ScopeRenamed') AND o.body IS NOT NULL;
            WHEN 'GrantChanged' THEN
                -- Only to whom one knows: else everyone could try ids against their own scope, and see which are there.
                SELECT * INTO grantee FROM scopes s WHERE s.id = (d ->> 'grantee')::uuid AND s.house_id = e.house_id;
                IF grantee.id IS NULL OR NOT (founding OR manages(e.actor_id, e.token_id, grantee.id)
                    OR EXISTS (SELECT FROM my_rights(e.actor_id, e.token_id) m WHERE m.rights & 1 = 1 AND (
                                   m.scope_id = grantee.id OR grantee.kind = 'agent' AND m.scope_id = grantee.parent_id))
                    OR EXISTS (SELECT FROM grants g WHERE g.grantee_id = grantee.id AND g.scope_id = old.id
                                  AND g.to_seq = 9223372036854775807)) THEN
                    PERFORM refuse('not_found', 'no such scope');
                ELSIF (d ->> 'rights')::integer > 0 AND (old.status, grantee.status) <> ('active', 'active') THEN
                    PERFORM refuse('invalid_input', 'rights are granted on an active scope, to an active scope');
                END IF;
                UPDATE grants g SET to_seq = at WHERE g.grantee_id = (d ->> 'grantee')::uuid AND g.scope_id = old.id
                   AND g.to_seq = 9223372036854775807;
                IF (d ->> 'rights')::integer > 0 THEN
                    INSERT INTO grants VALUES (e.house_id, old.id, (d ->> 'grantee')::uuid, (d ->> 'rights')::integer,
                                               at, 9223372036854775807);
                END IF;
                rights_moved := true;
            WHEN 'TokenIssued' THEN
                INSERT INTO tokens (id, house_id, principal_id, hash, rights, issued_at, expires_at)
                VALUES ((d ->> 'token')::uuid, e.house_id, old.id, decode(e.record ->> 'hash', 'hex'),
                        (d ->> 'rights')::integer, e.occurred_at, (d ->> 'expires_at')::timestamptz);
            WHEN 'TokenRevoked' THEN
                UPDATE tokens t SET revoked_at = e.occurred_at WHERE t.id = (d ->> 'token')::uuid
                   AND t.principal_id = old.id AND t.revoked_at IS NULL;
                IF NOT FOUND THEN
                    PERFORM refuse('not_found', 'no such token in use');
                END IF;
                rights_moved := true;
            WHEN 'ScopeRenamed', 'RuntimeEnrolled', 'HouseImported' THEN
                NULL;
            ELSE
                PERFORM refuse('invalid_input', format('%s is not an event of scopes', e.type));
        END CASE;
    END LOOP;

    places := chain_events(seal_events(evs), ARRAY[head.house_id], ARRAY[head.rights_version]);
    IF rights_moved THEN
        UPDATE stream_head h SET rights_version = h.rights_version + 1 WHERE h.house_id = head.house_id;
    END IF;
    RETURN QUERY SELECT p.seq, moment(p.micros) FROM unnest(places) p;
END $$;

-- Whose token is this? Only its digest is asked for, so the secret never reaches a query log.
CREATE FUNCTION authenticate(token_id uuid, secret_hash bytea)
RETURNS TABLE (principal_id uuid, house_id uuid, rights integer)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
    SELECT t.principal_id, t.house_id, t.rights::integer
      FROM tokens t
      JOIN placements p ON p.scope_id = t.principal_id AND p.to_seq = 9223372036854775807 AND p.active
     WHERE t.id = token_id AND t.hash = secret_hash AND t.revoked_at IS NULL
       AND (t.expires_at IS NULL OR t.expires_at > now())
       AND credential_mask(t.principal_id, t.id) > 0
$$;
