-- Memories, links and proposals; the append function.

-- Enumerations, not CHECKs, and no foreign key on parent_id: PostgreSQL reads a CHECK anew in every statement and looks a
-- foreign key up for every row, together a quarter of an append. Scopes are never deleted, and the functions below, which
-- are the only writers, look at the scope anyway.
CREATE TYPE category AS ENUM ('core', 'daily', 'conversation');
CREATE TYPE tier AS ENUM ('hot', 'warm', 'cold');
CREATE TYPE memory_status AS ENUM ('active', 'superseded', 'forgotten', 'erased');

CREATE TABLE memories (
    id uuid PRIMARY KEY,
    house_id uuid NOT NULL,
    parent_id uuid NOT NULL,
    key text,
    kind text NOT NULL,
    title text,
    description text,
    content text,
    tags text[] NOT NULL,
    concept_tags text[] NOT NULL,
    category category NOT NULL,
    tier tier NOT NULL,
    confidence double precision,
    valid_from timestamptz,
    valid_to timestamptz,
    point_in_time timestamptz,
    expires_at timestamptz,
    status memory_status NOT NULL,
    superseded_by uuid,
    taught_by uuid NOT NULL,
    held boolean NOT NULL,
    reinforcements integer NOT NULL,
    version integer NOT NULL,
    content_version integer NOT NULL,
    learned_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX memories_key ON memories (parent_id, key) WHERE status = 'active' AND key IS NOT NULL;
CREATE INDEX memories_learned ON memories (parent_id, learned_at, id);
CREATE INDEX memories_house ON memories (house_id, id);
CREATE INDEX memories_taught_by ON memories (taught_by);
CREATE INDEX memories_expiry ON memories (expires_at) WHERE expires_at IS NOT NULL AND status = 'active';
CREATE INDEX memories_superseded_by ON memories (superseded_by) WHERE superseded_by IS NOT NULL;

CREATE TABLE links (
    house_id uuid NOT NULL,
    from_id uuid NOT NULL REFERENCES memories,
    relation text NOT NULL,
    to_id uuid NOT NULL REFERENCES memories,
    weight double precision NOT NULL,
    PRIMARY KEY (from_id, relation, to_id)
);
CREATE INDEX links_to ON links (to_id);
CREATE INDEX links_house ON links (house_id);

-- What waits for an approver, or was decided. The id is that of the proposing event, and the text is in that event
-- only: what the proposer chose to show, at the version proposed.
CREATE TABLE proposals (
    id uuid PRIMARY KEY,
    house_id uuid NOT NULL,
    memory_id uuid NOT NULL,
    memory_version integer NOT NULL,
    to_scope uuid NOT NULL REFERENCES scopes,
    proposed_by uuid NOT NULL,
    status text NOT NULL CHECK (status IN ('pending', 'approved', 'declined', 'withdrawn')),
    decided_by uuid,
    promoted_id uuid,
    proposed_at timestamptz NOT NULL,
    decided_at timestamptz
);
CREATE INDEX proposals_to ON proposals (to_scope, status);
CREATE INDEX proposals_memory ON proposals (memory_id);
CREATE INDEX proposals_house ON proposals (house_id);

-- What each derived memory was derived from: from the evidence of its events, kept for the way back up.
CREATE TABLE derivations (
    house_id uuid NOT NULL,
    memory_id uuid NOT NULL REFERENCES memories,
    source_id uuid NOT NULL,
    source_version integer NOT NULL,
    PRIMARY KEY (memory_id, source_id, source_version)
);
CREATE INDEX derivations_source ON derivations (source_id);
CREATE INDEX derivations_house ON derivations (house_id);

-- A token bucket for each agent whose rate of writes is limited; agents without a limit have no row.
CREATE TABLE budgets (
    principal_id uuid PRIMARY KEY,
    remaining double precision NOT NULL,
    refilled_at timestamptz NOT NULL
) WITH (fillfactor = 50);

-- Which right an event needs on its scope: 2 = w, 4 = x; 6 = w for what oneself taught, x for what others did;
-- 8 = x on the scope or any above it (managing). A type that is not here is refused.
CREATE TABLE event_rules (
    type text PRIMARY KEY,
    needs smallint NOT NULL,
    subject text NOT NULL CHECK (subject IN ('new', 'memory', 'none'))
);
INSERT INTO event_rules VALUES
    ('MemoryLearned', 2, 'new'),
    ('MemoryPromoted', 4, 'new'),
    ('MemoryRevised', 6, 'memory'),
    ('MemoryReinforced', 2, 'memory'),
    ('MemorySuperseded', 6, 'memory'),
    ('MemoryMerged', 6, 'memory'),
    ('MemoryContradicted', 6, 'memory'),
    ('TierChanged', 6, 'memory'),
    ('MemoryForgotten', 6, 'memory'),
    ('MemoryRestored', 6, 'memory'),
    ('MemoryErased', 8, 'memory'),
    ('MemoryHeld', 8, 'memory'),
    ('MemoryReleased', 8, 'memory'),
    ('MemoriesLinked', 2, 'memory'),
    ('MemoriesUnlinked', 2, 'memory'),
    ('MemoryPromotionProposed', 2, 'memory'),
    ('MemoryPromotionDeclined', 4, 'none'),
    ('SourceRetracted', 4, 'none');

-- Quotas and rates, for houses that have any: for each event the reason why it is too much, or NULL. What fits is let
-- through, in order. Managing (erasing, holding) is never too much, nor is what the house does by its own policy; what
-- takes the place of a memory in the same item adds none.
CREATE FUNCTION over_limit(evs new_event[], verdicts text[]) RETURNS text[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp SET enable_seqscan = off AS $$
DECLARE
    reasons text[] := array_fill(NULL::text, ARRAY[cardinality(evs)]);
    a record; held bigint; left_over double precision; used integer;
BEGIN
    FOR a IN
        -- The strictest limit along the chain counts. Sorted, so that two batches take their locks in one order.
        SELECT w.actor_id, w.ords, w.fresh, c.memories_max, c.per_minute
          FROM (SELECT e.actor_id, array_agg(e.ord ORDER BY e.ord) AS ords, array_agg(e.fresh ORDER BY e.ord) AS fresh
                  FROM (SELECT x.actor_id, x.house_id, x.type, x.ordinality AS ord, x.type = 'MemoryLearned'
                               AND NOT bool_or(x.type = 'MemorySuperseded') OVER (PARTITION BY x.item) AS fresh
                          FROM unnest(evs) WITH ORDINALITY x) e
                 WHERE verdicts[e.ord] = 'ok' AND e.actor_id <> e.house_id
                   AND e.type NOT IN ('MemoryErased', 'MemoryHeld', 'MemoryReleased')
                 GROUP BY e.actor_id) w
         CROSS JOIN LATERAL (SELECT min(p.memories_max) AS memories_max, min(p.writes_per_minute) AS per_minute
                               FROM chain_of(ARRAY[w.actor_id], 9223372036854775806) p) c
         WHERE c.memories_max IS NOT NULL OR c.per_minute IS NOT NULL
         ORDER BY w.actor_id
    LOOP
        held := NULL; left_over := NULL; used := 0;
        IF a.memories_max IS NOT NULL AND true = ANY (a.fresh) THEN
            -- Until the commit: two processes that write for one agent must count one after the other. Not a row of
            -- placements, for `govern` takes those after the head, and this comes before it.
            PERFORM pg_advisory_xact_lock(hashtextextended(a.actor_id::text, 0));
            SELECT count(*) INTO held FROM (SELECT FROM memories m WHERE m.taught_by = a.actor_id AND m.status = 'active'
                                             LIMIT a.memories_max) bounded;
        END IF;
        IF a.per_minute IS NOT NULL THEN
            INSERT INTO budgets AS b VALUES (a.actor_id, a.per_minute, clock_timestamp())
            ON CONFLICT (principal_id) DO UPDATE
               SET remaining = least(a.per_minute, b.remaining
                       + extract(epoch FROM clock_timestamp() - b.refilled_at)::double precision * a.per_minute / 60),
                   refilled_at = clock_timestamp()
            RETURNING remaining INTO left_over;
        END IF;
        FOR i IN 1 .. cardinality(a.ords) LOOP
            IF a.fresh[i] AND held >= a.memories_max THEN
                reasons[a.ords[i]] := format('quota: %s of %s memories', held, a.memories_max);
            ELSIF left_over - used < 1 THEN
                reasons[a.ords[i]] := format('rate: %s writes a minute', a.per_minute);
            ELSE
                used := used + 1;
                held := held + a.fresh[i]::integer;
            END IF;
        END LOOP;
        IF a.per_minute IS NOT NULL AND used > 0 THEN
            UPDATE budgets SET remaining = remaining - used WHERE principal_id = a.actor_id;
        END IF;
    END LOOP;
    RETURN reasons;
END $$;

-- Forget the text of whole subjects: the one place where an event is ever changed. Commitments stay, so the chain holds.
CREATE FUNCTION erase_text(house uuid, subjects uuid[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp SET enable_seqscan = off AS $$
BEGIN
    UPDATE events SET body = NULL, salt = NULL
     WHERE subject_id = ANY (subjects) AND house_id IS NOT DISTINCT FROM house AND body IS NOT NULL;
    UPDATE proposals SET status = 'withdrawn' WHERE memory_id = ANY (subjects) AND house_id IS NOT DISTINCT FROM house AND status = 'pending';
END $$;

-- Append a batch: one round trip, one status row per event, and an item that fails never fails its neighbours.
-- Items are sorted so that records and heads are always locked in one order. No item of a batch may share a subject,
-- a key or an event id with another: the sender puts such items into successive batches.
-- The plans are made while the tables are small, kept by the session, and must still be right at a million rows: so only
-- look-ups by index are allowed, row by row. A hash join over an empty table is cheaper on the day it is planned.
CREATE FUNCTION append(items json)
RETURNS TABLE (item integer, step integer, status text, seq bigint, recorded_at timestamptz, detail text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    login text := (SELECT kind FROM logins WHERE role = session_user);
    forever CONSTANT bigint := 9223372036854775807;
    evs new_event[]; written new_event[]; verdicts text[]; details text[]; places place[];
    houses uuid[]; rights_seen bigint[]; actors uuid[]; limited boolean;
    changes integer; creations integer; largest integer; special integer; derived integer;
    all_good boolean; created uuid[];
BEGIN
    IF login IS NULL THEN
        RAISE EXCEPTION 'this database login is not enrolled' USING ERRCODE = 'insufficient_privilege';
    END IF;
    SELECT array_agg(e ORDER BY e.house_id, e.item, e.step), array_agg(DISTINCT e.house_id),
           array_agg(DISTINCT e.actor_id), count(*) FILTER (WHERE e.type NOT IN ('MemoryLearned', 'MemoryPromoted')),
           count(*) FILTER (WHERE e.expected_version = 0), max(e.size),
           count(*) FILTER (WHERE e.type IN ('MemoriesLinked', 'MemoriesUnlinked', 'MemoryPromotionProposed',
               'MemoryPromoted', 'MemoryPromotionDeclined', 'MemoryErased', 'MemoryHeld', 'MemoryReleased')
               OR e.record IS NULL AND e.type = 'MemoryForgotten'),
           count(*) FILTER (WHERE e.data LIKE '%"derived_from"%')
      INTO evs, houses, actors, changes, creations, largest, special, derived
      FROM json_populate_recordset(NULL::new_event, items) e;

    IF changes > 0 THEN
        PERFORM FROM memories m WHERE m.id IN (SELECT e.subject_id FROM unnest(evs) e WHERE e.expected_version > 0)
          ORDER BY m.id FOR UPDATE;
    END IF;

    IF special > 0 THEN
        -- Of two who decide on one proposal, the second waits here and then sees that it is decided.
        PERFORM FROM proposals q WHERE q.id IN (
            SELECT (e.data::json ->> 'proposal')::uuid FROM unnest(evs) e
             WHERE e.type IN ('MemoryPromoted', 'MemoryPromotionDeclined')) ORDER BY q.id FOR UPDATE;
    END IF;

    -- Judge every event in one statement: one snapshot for the rights, their version, the records and earlier events.
    -- What one may not read gives the same answer as what is not there.
    SELECT array_agg(j.verdict ORDER BY j.ord), array_agg(j.detail ORDER BY j.ord),
           (SELECT array_agg(h.rights_version ORDER BY h.house_id) FROM stream_head h WHERE h.house_id = ANY (houses)),
           (SELECT bool_or(h.limited) FROM stream_head h WHERE h.house_id = ANY (houses))
      INTO verdicts, details, rights_seen, limited
      FROM (
        SELECT e.ordinality AS ord,
               CASE
                   WHEN login = 'runtime' AND NOT EXISTS (
                       SELECT FROM login_agents la WHERE la.role = session_user AND la.agent_id = e.actor_id)
                       THEN 'not_authenticated'
                   WHEN e.token_id IS NOT NULL AND t.id IS NULL THEN 'not_authenticated'
                   WHEN o.event_id IS NOT NULL THEN CASE
                       WHEN (o.type, o.scope_id, o.actor_id) IS DISTINCT FROM (e.type, e.scope_id, e.actor_id)
                         OR (o.body IS NOT NULL AND (o.subject_id, o.data, o.body) IS DISTINCT FROM (e.subject_id, e.data, e.body))
                       THEN 'idempotency_conflict' ELSE 'repeat' END
                   WHEN rule.type IS NULL THEN 'invalid_input'
                   WHEN p.scope_id IS NULL OR p.house_id <> e.house_id OR NOT p.active AND rule.needs <> 8 THEN 'not_found'
                   WHEN rule.subject = 'new' AND e.expected_version IS DISTINCT FROM 0 THEN 'invalid_input'
                   WHEN rule.subject = 'new' AND m.id IS NOT NULL THEN 'conflict'
                   WHEN rule.subject = 'memory' AND (m.id IS NULL OR m.parent_id <> e.scope_id) THEN 'not_found'
                   WHEN e.actor_id = e.house_id AND login = 'app' THEN 'ok'  -- the house, by its own policy
                   WHEN rule.needs = 8 THEN 'ok'  -- managing is judged below
                   WHEN coalesce(r.rights, 0) & 1 = 0 AND coalesce(r.rights, 0) & 2 = 0 THEN 'not_found'
                   WHEN r.rights & coalesce(t.rights::integer, 7) & (CASE
                            WHEN rule.needs <> 6 THEN rule.needs WHEN m.taught_by = e.actor_id THEN 2 ELSE 4 END) = 0
                       AND NOT (r.rights & coalesce(t.rights::integer, 7) & 4 = 4 AND rule.needs = 6) THEN 'denied'
                   ELSE 'ok'
               END AS verdict,
               o.seq::text AS detail
          FROM unnest(evs) WITH ORDINALITY e
          LEFT JOIN event_rules rule ON rule.type = e.type
          LEFT JOIN events o ON o.event_id = e.event_id AND o.house_id IS NOT DISTINCT FROM e.house_id
          LEFT JOIN memories m ON m.id = e.subject_id
          LEFT JOIN placements p ON p.scope_id = e.scope_id AND p.to_seq = forever
          LEFT JOIN rights_of(actors, 9223372036854775806) r ON r.principal_id = e.actor_id AND r.scope_id = e.scope_id
          LEFT JOIN tokens t ON t.id = e.token_id AND t.principal_id = e.actor_id AND t.revoked_at IS NULL
               AND (t.expires_at IS NULL OR t.expires_at > now())
      ) j;

    IF special > 0 THEN
        SELECT array_agg(s.verdict ORDER BY s.ord) INTO verdicts FROM (
            SELECT e.ordinality AS ord, CASE
                WHEN verdicts[e.ordinality] <> 'ok' THEN verdicts[e.ordinality]
                WHEN e.type IN ('MemoryErased', 'MemoryHeld', 'MemoryReleased') THEN CASE
                    WHEN NOT (e.actor_id = e.house_id AND login = 'app') AND NOT manages(e.actor_id, e.token_id, e.scope_id) THEN
                        CASE WHEN EXISTS (SELECT FROM my_rights(e.actor_id, e.token_id) r
                                           WHERE r.scope_id = e.scope_id AND r.rights & 1 = 1) THEN 'denied' ELSE 'not_found' END
                    WHEN e.type = 'MemoryErased' AND (
                        (SELECT m.held FROM memories m WHERE m.id = e.subject_id)
                        OR (SELECT bool_or(c.legal_hold) FROM chain_of(ARRAY[e.scope_id], 9223372036854775806) c)) THEN 'legal_hold'
                    ELSE 'ok' END
                WHEN e.type = 'MemoriesLinked' AND NOT EXISTS (
                    SELECT FROM memories m JOIN my_rights(e.actor_id, e.token_id) r ON r.scope_id = m.parent_id AND r.rights & 1 = 1
                     WHERE m.id = (e.data::json ->> 'to')::uuid AND m.house_id = e.house_id AND m.status <> 'erased') THEN 'not_found'
                WHEN e.type = 'MemoryPromotionProposed' AND NOT EXISTS (
                    SELECT FROM my_rights(e.actor_id, e.token_id) r JOIN placements p ON p.scope_id = r.scope_id AND p.to_seq = forever
                     WHERE r.scope_id = (e.data::json ->> 'to_scope')::uuid AND r.rights & 1 = 1 AND p.kind <> 'agent') THEN 'not_found'
                WHEN e.type IN ('MemoryPromoted', 'MemoryPromotionDeclined') AND NOT EXISTS (
                    SELECT FROM proposals q WHERE q.id = (e.data::json ->> 'proposal')::uuid AND q.house_id = e.house_id
                       AND q.to_scope = e.scope_id AND q.status = 'pending'
                       -- What its owner forgot, or a retraction took back, no late approval brings into the house.
                       AND (e.type = 'MemoryPromotionDeclined' OR EXISTS (
                           SELECT FROM memories m WHERE m.id = q.memory_id AND m.status = 'active'))) THEN 'not_found'
                ELSE 'ok' END AS verdict
            FROM unnest(evs) WITH ORDINALITY e) s;
    END IF;

    -- Every version but the one that is there is stale, also 0 and below: no event may be without its change of the record.
    IF changes > 0 THEN
        SELECT array_agg(s.verdict ORDER BY s.ord), array_agg(s.detail ORDER BY s.ord) INTO verdicts, details FROM (
            SELECT e.ordinality AS ord,
                   CASE WHEN verdicts[e.ordinality] = 'ok' AND rule.subject = 'memory' AND m.version IS DISTINCT FROM e.expected_version
                        THEN 'stale' ELSE verdicts[e.ordinality] END AS verdict,
                   CASE WHEN verdicts[e.ordinality] = 'ok' AND rule.subject = 'memory' AND m.version IS DISTINCT FROM e.expected_version
                        THEN m.version::text ELSE details[e.ordinality] END AS detail
              FROM unnest(evs) WITH ORDINALITY e LEFT JOIN event_rules rule ON rule.type = e.type
              LEFT JOIN memories m ON m.id = e.subject_id) s;
    END IF;

    IF limited THEN
        SELECT array_agg(CASE WHEN o.reason IS NULL THEN verdicts[o.ordinality] ELSE 'limit_exceeded' END ORDER BY o.ordinality),
               array_agg(coalesce(o.reason, details[o.ordinality]) ORDER BY o.ordinality) INTO verdicts, details
          FROM unnest(over_limit(evs, verdicts)) WITH ORDINALITY o (reason, ordinality);
    END IF;

    -- An item is written whole or not at all.
    IF largest > 1 THEN
        SELECT array_agg(s.verdict ORDER BY s.ord) INTO verdicts FROM (
            SELECT e.ordinality AS ord,
                   CASE WHEN verdicts[e.ordinality] = 'ok' AND bool_or(verdicts[e.ordinality] <> 'ok') OVER (PARTITION BY e.item)
                        THEN 'skipped' ELSE verdicts[e.ordinality] END AS verdict
              FROM unnest(evs) WITH ORDINALITY e) s;
    END IF;

    all_good := NOT EXISTS (SELECT FROM unnest(verdicts) v WHERE v <> 'ok');
    -- Changes before creations: a memory that is superseded in the same item leaves its key to the new one.
    IF changes > 0 THEN
        UPDATE memories m
           SET key = r.key, kind = r.kind, title = r.title, description = r.description, content = r.content, tags = r.tags,
               concept_tags = r.concept_tags, category = r.category, tier = r.tier, confidence = r.confidence,
               valid_from = r.valid_from, valid_to = r.valid_to, point_in_time = r.point_in_time,
               expires_at = r.expires_at, status = r.status, superseded_by = r.superseded_by, version = e.expected_version + 1,
               content_version = r.content_version, updated_at = r.updated_at
          FROM unnest(evs) WITH ORDINALITY e, json_populate_record(NULL::memories, e.record) r
         WHERE m.id = e.subject_id AND e.expected_version > 0 AND verdicts[e.ordinality] = 'ok'
           AND e.type NOT IN ('MemoryErased', 'MemoryHeld', 'MemoryReleased', 'MemoryReinforced', 'MemoriesLinked',
                              'MemoriesUnlinked', 'MemoryPromotionProposed')
           AND NOT (e.record IS NULL AND e.type = 'MemoryForgotten');
        -- What anyone with w may do to what others taught changes no more than this, whatever record came along.
        UPDATE memories m
           SET reinforcements = m.reinforcements + CASE e.type WHEN 'MemoryReinforced' THEN 1 ELSE 0 END,
               confidence = CASE e.type WHEN 'MemoryReinforced'
                   THEN coalesce((e.data::json ->> 'confidence')::double precision, m.confidence) ELSE m.confidence END,
               version = e.expected_version + 1, updated_at = e.occurred_at
          FROM unnest(evs) WITH ORDINALITY e
         WHERE m.id = e.subject_id AND e.expected_version > 0 AND verdicts[e.ordinality] = 'ok'
           AND e.type IN ('MemoryReinforced', 'MemoriesLinked', 'MemoriesUnlinked', 'MemoryPromotionProposed');
    END IF;

    IF creations > 0 THEN
        WITH fresh AS (
            INSERT INTO memories (id, house_id, parent_id, key, kind, title, description, content, tags, concept_tags,
                                  category, tier, confidence, valid_from, valid_to, point_in_time, expires_at, status,
                                  superseded_by, taught_by, held, reinforcements, version, content_version,
                                  learned_at, updated_at)
            SELECT e.subject_id, e.house_id, e.scope_id, r.key, r.kind, r.title, r.description, r.content,
                   coalesce(r.tags, '{}'), coalesce(r.concept_tags, '{}'), r.category, r.tier, r.confidence,
                   r.valid_from, r.valid_to, r.point_in_time, r.expires_at, 'active', NULL,
                   CASE e.type WHEN 'MemoryLearned' THEN e.actor_id ELSE (e.data::json ->> 'proposed_by')::uuid END,
                   false, 0, 1, 1, e.occurred_at, e.occurred_at
              FROM unnest(evs) WITH ORDINALITY e,
                   -- A new memory is its event's fields, by name: data and body hold them under the names of the columns.
                   json_populate_record(json_populate_record(NULL::memories, e.data::json), e.body::json) r
             WHERE e.expected_version = 0 AND (all_good OR verdicts[e.ordinality] = 'ok')
            ON CONFLICT DO NOTHING
            RETURNING id)
        SELECT array_agg(id) INTO created FROM fresh;
        IF coalesce(cardinality(created), 0) < creations THEN
            -- A key that is taken, unless the event was refused before: nothing else keeps a row out.
            SELECT array_agg(s.verdict ORDER BY s.ord) INTO verdicts FROM (
                SELECT e.ordinality AS ord,
                       CASE WHEN verdicts[e.ordinality] = 'ok' AND e.expected_version = 0
                                 AND NOT e.subject_id = ANY (coalesce(created, '{}'))
                            THEN 'duplicate_key' ELSE verdicts[e.ordinality] END AS verdict
                  FROM unnest(evs) WITH ORDINALITY e) s;
            all_good := false;
            IF largest > 1 AND 'duplicate_key' = ANY (verdicts) THEN
                -- Part of an item may already be in: give up the batch, and its sender sends the items one by one.
                RAISE EXCEPTION 'an active memory of this scope has this key' USING ERRCODE = 'SB002', HINT = 'duplicate_key';
            END IF;
        END IF;
    END IF;

    IF derived > 0 THEN
        INSERT INTO derivations (house_id, memory_id, source_id, source_version)
        SELECT e.house_id, e.subject_id, (d ->> 'memory')::uuid, (d ->> 'version')::integer
          FROM unnest(evs) WITH ORDINALITY e, json_array_elements(e.data::json -> 'evidence' -> 'derived_from') d
         WHERE verdicts[e.ordinality] = 'ok' AND e.expected_version >= 0
        ON CONFLICT DO NOTHING;
    END IF;

    IF special > 0 THEN
        INSERT INTO links (house_id, from_id, relation, to_id, weight)
        SELECT e.house_id, e.subject_id, e.data::json ->> 'relation', (e.data::json ->> 'to')::uuid,
               (e.data::json ->> 'weight')::double precision
          FROM unnest(evs) WITH ORDINALITY e WHERE e.type = 'MemoriesLinked' AND verdicts[e.ordinality] = 'ok'
        ON CONFLICT (from_id, relation, to_id) DO UPDATE SET weight = excluded.weight;
        DELETE FROM links l USING unnest(evs) WITH ORDINALITY e
         WHERE e.type = 'MemoriesUnlinked' AND verdicts[e.ordinality] = 'ok' AND l.from_id = e.subject_id
           AND l.relation = e.data::json ->> 'relation' AND l.to_id = (e.data::json ->> 'to')::uuid;
        INSERT INTO proposals (id, house_id, memory_id, memory_version, to_scope, proposed_by, status, proposed_at)
        SELECT e.event_id, e.house_id, e.subject_id, e.expected_version,
               (e.data::json ->> 'to_scope')::uuid, e.actor_id, 'pending', e.occurred_at
          FROM unnest(evs) WITH ORDINALITY e WHERE e.type = 'MemoryPromotionProposed' AND verdicts[e.ordinality] = 'ok';
        UPDATE proposals q
           SET status = CASE e.type WHEN 'MemoryPromoted' THEN 'approved' ELSE 'declined' END, decided_by = e.actor_id,
               promoted_id = CASE e.type WHEN 'MemoryPromoted' THEN e.subject_id END, decided_at = e.occurred_at
          FROM unnest(evs) WITH ORDINALITY e
         WHERE e.type IN ('MemoryPromoted', 'MemoryPromotionDeclined') AND verdicts[e.ordinality] = 'ok'
           AND q.id = (e.data::json ->> 'proposal')::uuid;
        -- Who erases need not be able to read, so the erased record is made here.
        UPDATE memories m
           SET key = NULL, title = NULL, description = NULL, content = NULL, tags = '{}', concept_tags = '{}',
               status = 'erased', version = e.expected_version + 1, content_version = e.expected_version + 1,
               updated_at = e.occurred_at
          FROM unnest(evs) WITH ORDINALITY e
         WHERE m.id = e.subject_id AND e.type = 'MemoryErased' AND verdicts[e.ordinality] = 'ok';
        -- Nor need who holds, or the house that forgets by its own policy, which comes without a record.
        UPDATE memories m
           SET held = CASE e.type WHEN 'MemoryHeld' THEN true WHEN 'MemoryReleased' THEN false ELSE m.held END,
               status = CASE e.type WHEN 'MemoryForgotten' THEN 'forgotten' ELSE m.status END,
               version = e.expected_version + 1, updated_at = e.occurred_at
          FROM unnest(evs) WITH ORDINALITY e
         WHERE m.id = e.subject_id AND verdicts[e.ordinality] = 'ok'
           AND (e.type IN ('MemoryHeld', 'MemoryReleased') OR e.record IS NULL AND e.type = 'MemoryForgotten');
        PERFORM erase_text(e.house_id, array_agg(e.subject_id)) FROM unnest(evs) WITH ORDINALITY e
          WHERE e.type = 'MemoryErased' AND verdicts[e.ordinality] = 'ok' GROUP BY e.house_id ORDER BY e.house_id;
    END IF;

    IF all_good THEN
        written := evs;
    ELSE
        written := ARRAY(SELECT (e.item, e.step, e.size, e.house_id, e.event_id, e.scope_id, e.subject_id, e.expected_version, e.type,
                                 e.schema_version, e.actor_id, e.token_id, e.runtime, e.session_id, e.run_id, e.causation_id,
                                 e.correlation_id, e.data, e.body, e.occurred_at, e.record, NULL, NULL, NULL)::new_event
                           FROM unnest(evs) WITH ORDINALITY e WHERE verdicts[e.ordinality] = 'ok' ORDER BY e.ordinality);
    END IF;
    IF cardinality(written) > 0 THEN
        places := chain_events(seal_events(written), houses, rights_seen);
    END IF;

    RETURN QUERY SELECT w.item, w.step, 'ok', w.seq, moment(w.micros), NULL::text
                   FROM ROWS FROM (unnest(written), unnest(places)) AS w (
                       item, step, size, house_id, event_id, scope_id, subject_id, expected_version, type, schema_version,
                       actor_id, token_id, runtime, session_id, run_id, causation_id, correlation_id, data, body,
                       occurred_at, record, salt, commitment, fixed, seq, micros);
    IF NOT all_good THEN
        RETURN QUERY SELECT e.item, e.step, verdicts[e.ordinality], o.seq, o.recorded_at, details[e.ordinality]
                       FROM unnest(evs) WITH ORDINALITY e
                       LEFT JOIN events o ON verdicts[e.ordinality] = 'repeat' AND o.event_id = e.event_id AND o.house_id IS NOT DISTINCT FROM e.house_id
                      WHERE verdicts[e.ordinality] <> 'ok';
    END IF;
END $$;

-- Where a credential may write plainly, and under which version of its house's rights that was found. A process keeps the
-- answer and sends the version with what it writes: see `learn`. A house with limits has no plain writes.
CREATE FUNCTION plain_rights(principal uuid, token uuid)
RETURNS TABLE (rights_version bigint, writable uuid[], until timestamptz)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
BEGIN
    RETURN QUERY
    SELECT h.rights_version,
           CASE WHEN h.limited THEN '{}'
                ELSE ARRAY(SELECT r.scope_id FROM my_rights(principal, token) r WHERE r.rights & 2 = 2) END,
           (SELECT t.expires_at FROM tokens t WHERE t.id = token)
      FROM placements p JOIN stream_head h ON h.house_id = p.house_id
     WHERE p.scope_id = principal AND p.to_seq = 9223372036854775807 AND credential_mask(principal, token) > 0;
END $$;

-- The way of a plain `remember`, and of nothing else: new memories whose event ids were never used before, by agents whose
-- right to write there was found by `plain_rights` under these versions of the houses' rights. The walk is not repeated:
-- `chain_events` compares the versions under the head's lock, so a revocation is never overtaken. Only the trusted
-- application may call this; a runtime's own login is judged event by event in `append`.
-- Whatever is not plain (a right that changed, a key or an id that is taken) fails the call as a whole, nothing written,
-- and the sender turns to `append`, which answers for each item. Items come sorted by house.
-- jsonb and single fields, where `append` has json_populate_record: that looks up its columns anew in every call.
CREATE FUNCTION learn(items jsonb, houses uuid[], rights bigint[]) RETURNS place[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    evs new_event[];
    seed bytea := uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid());
BEGIN
    evs := ARRAY(
        SELECT ROW(0, 0, 1, e.house_id, e.event_id, e.scope_id, e.subject_id, 0, 'MemoryLearned', e.schema_version,
                   e.actor_id, NULL, e.runtime, e.session_id, e.run_id, e.causation_id, e.correlation_id, e.data, e.body,
                   e.occurred_at, NULL, e.salt, sha256(e.salt || convert_to(e.body, 'UTF8')),
                   fixed_part(e.house_id, e.event_id, e.scope_id, e.subject_id, 1, 'MemoryLearned', e.schema_version,
                              e.actor_id, e.runtime, e.session_id, e.run_id, e.causation_id, e.correlation_id, e.data,
                              e.occurred_at))::new_event
          FROM (SELECT (x ->> 'house_id')::uuid AS house_id, (x ->> 'event_id')::uuid AS event_id,
                       (x ->> 'scope_id')::uuid AS scope_id, (x ->> 'subject_id')::uuid AS subject_id,
                       (x -> 'schema_version')::smallint AS schema_version, (x ->> 'actor_id')::uuid AS actor_id,
                       x ->> 'runtime' AS runtime, x ->> 'session_id' AS session_id, x ->> 'run_id' AS run_id,
                       (x ->> 'causation_id')::uuid AS causation_id, (x ->> 'correlation_id')::uuid AS correlation_id,
                       x ->> 'data' AS data, x ->> 'body' AS body, (x ->> 'occurred_at')::timestamptz AS occurred_at,
                       salt_of(seed, (x -> 'item')::bigint) AS salt
                  FROM jsonb_array_elements(items) x OFFSET 0) e);

    -- A new memory is its event's fields, by name.
    INSERT INTO memories (id, house_id, parent_id, key, kind, title, description, content, tags, concept_tags, category,
                          tier, confidence, valid_from, valid_to, point_in_time, expires_at, status,
                          taught_by, held, reinforcements, version, content_version, learned_at, updated_at)
    SELECT e.subject_id, e.house_id, e.scope_id, b ->> 'key', d ->> 'kind', b ->> 'title', b ->> 'description',
           b ->> 'content',
           CASE WHEN b ? 'tags' THEN ARRAY(SELECT jsonb_array_elements_text(b -> 'tags')) ELSE '{}' END,
           CASE WHEN b ? 'concept_tags' THEN ARRAY(SELECT jsonb_array_elements_text(b -> 'concept_tags')) ELSE '{}' END,
           (d ->> 'category')::category, (d ->> 'tier')::tier, (d -> 'confidence')::double precision,
           (d ->> 'valid_from')::timestamptz, (d ->> 'valid_to')::timestamptz, (d ->> 'point_in_time')::timestamptz,
           (d ->> 'expires_at')::timestamptz, 'active', e.actor_id, false, 0, 1, 1, e.occurred_at, e.occurred_at
      FROM unnest(evs) e, CAST(e.data AS jsonb) d, CAST(e.body AS jsonb) b;

    RETURN chain_events(evs, houses, rights);
END $$;

-- `learn` for a single memory, the commonest write of all: the same, without a batch's arrays and loops, at half the cost.
-- The head is locked, moved and hashed in one statement; if the rights changed meanwhile it is not found, hence SB001.
-- The salt comes from the caller, who has the text anyway: the system's random numbers are slow to ask for here.
CREATE FUNCTION learn_one(house uuid, rights bigint, event uuid, scope uuid, subject uuid, actor uuid,
                          schema_version smallint, runtime text, session text, run text, causation uuid,
                          correlation uuid, data text, body text, occurred_at timestamptz, salt bytea)
RETURNS place
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp
SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_variable
DECLARE
    commitment bytea := sha256(salt || convert_to(body, 'UTF8'));
    fixed bytea := fixed_part(house, event, scope, subject, 1, 'MemoryLearned', schema_version, actor, runtime, session,
                              run, causation, correlation, data, occurred_at);
    now_at bigint := microseconds(clock_timestamp());
    head record;
BEGIN
    INSERT INTO memories (id, house_id, parent_id, key, kind, title, description, content, tags, concept_tags, category,
                          tier, confidence, valid_from, valid_to, point_in_time, expires_at, status,
                          taught_by, held, reinforcements, version, content_version, learned_at, updated_at)
    SELECT subject, house, scope, b ->> 'key', d ->> 'kind', b ->> 'title', b ->> 'description', b ->> 'content',
           CASE WHEN b ? 'tags' THEN ARRAY(SELECT jsonb_array_elements_text(b -> 'tags')) ELSE '{}' END,
           CASE WHEN b ? 'concept_tags' THEN ARRAY(SELECT jsonb_array_elements_text(b -> 'concept_tags')) ELSE '{}' END,
           (d ->> 'category')::category, (d ->> 'tier')::tier, (d -> 'confidence')::double precision,
           (d ->> 'valid_from')::timestamptz, (d ->> 'valid_to')::timestamptz, (d ->> 'point_in_time')::timestamptz,
           (d ->> 'expires_at')::timestamptz, 'active', actor, false, 0, 1, 1, occurred_at, occurred_at
      FROM CAST(data AS jsonb) d, CAST(body AS jsonb) b;

    UPDATE stream_head s
       SET seq = s.seq + 1, recorded_at = moment(greatest(now_at, microseconds(s.recorded_at) + 1)), prev_hash = s.hash,
           hash = sha256(s.hash || fixed || int8send(s.seq + 1)
                         || int8send(greatest(now_at, microseconds(s.recorded_at) + 1)) || commitment)
     WHERE s.house_id = house AND s.rights_version = rights
    RETURNING s.seq, s.recorded_at, s.prev_hash, s.hash INTO head;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'rights changed while the write was under way' USING ERRCODE = 'SB001';
    END IF;

    INSERT INTO events (house_id, seq, event_id, scope_id, subject_id, version, type, schema_version, actor_id, runtime,
                        session_id, run_id, causation_id, correlation_id, data, body, salt, commitment,
                        occurred_at, recorded_at, prev_hash, hash)
    VALUES (house, head.seq, event, scope, subject, 1, 'MemoryLearned', schema_version, actor, runtime, session, run,
            causation, correlation, data, body, salt, commitment, occurred_at, head.recorded_at, head.prev_hash,
            head.hash);
    RETURN (head.seq, microseconds(head.recorded_at))::place;
END $$;
