-- Sessions, their turns, and what of them waits to be searched for durable knowledge.
--
-- A session's id is the caller's word, so it is unique within its scope only: nobody learns from an id that is taken what
-- others call their sessions. None of this is on the stream: a conversation is not yet something that was learned.

CREATE TABLE sessions (
    scope_id uuid NOT NULL,
    id text NOT NULL CHECK (length(id) BETWEEN 1 AND 200),
    house_id uuid NOT NULL,
    agent_id uuid NOT NULL,
    created_at timestamptz NOT NULL,
    last_active_at timestamptz NOT NULL,
    closed_at timestamptz,
    -- An erased session stays as an empty row: whoever still has it open must not write it into being again.
    erased_at timestamptz,
    turns integer NOT NULL DEFAULT 0,
    offered_through integer NOT NULL DEFAULT 0,
    archived_through integer NOT NULL DEFAULT 0,
    -- The end of the range that somebody is archiving; who takes over after a crash archives the same range.
    archiving_through integer,
    -- Moves when text of it goes, so that who has a copy notices.
    revision integer NOT NULL DEFAULT 0,
    -- All offered and archived. In the place of an index on times, which every turn would have to keep.
    settled boolean NOT NULL DEFAULT true,
    PRIMARY KEY (scope_id, id),
    CHECK (offered_through BETWEEN 0 AND turns),
    CHECK (archived_through BETWEEN 0 AND turns)
) WITH (fillfactor = 70);
CREATE INDEX sessions_created ON sessions (scope_id, created_at, id);
CREATE INDEX sessions_named ON sessions (house_id, id);
CREATE INDEX sessions_unsettled ON sessions (scope_id) WHERE NOT settled;

-- `content` is NULL once the text was erased; the turn keeps its number.
CREATE TABLE interactions (
    id uuid PRIMARY KEY,
    house_id uuid NOT NULL,
    scope_id uuid NOT NULL,
    session_id text NOT NULL,
    turn integer NOT NULL,
    agent_id uuid NOT NULL,
    role text NOT NULL CHECK (length(role) BETWEEN 1 AND 64),
    content text CHECK (octet_length(content) <= 1048576),
    metadata jsonb CHECK (pg_column_size(metadata) <= 65536),
    message_id text CHECK (length(message_id) BETWEEN 1 AND 200),
    runtime text,
    run_id text,
    created_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX interactions_turn ON interactions (scope_id, session_id, turn);
CREATE UNIQUE INDEX interactions_message ON interactions (scope_id, session_id, message_id) WHERE message_id IS NOT NULL;
CREATE INDEX interactions_age ON interactions USING brin (created_at);
ALTER TABLE interactions ALTER content SET STATISTICS 0, ALTER metadata SET STATISTICS 0;

-- An outbox: turns first_turn..last_turn of a session, to be searched once. It holds no text.
CREATE TABLE extraction_offers (
    id uuid PRIMARY KEY,
    house_id uuid NOT NULL,
    scope_id uuid NOT NULL,
    session_id text NOT NULL,
    agent_id uuid NOT NULL,
    first_turn integer NOT NULL,
    last_turn integer NOT NULL,
    offered_at timestamptz NOT NULL,
    claim uuid,
    claimed_until timestamptz,
    attempts integer NOT NULL DEFAULT 0,
    done_at timestamptz,
    CHECK (first_turn BETWEEN 1 AND last_turn)
);
CREATE UNIQUE INDEX extraction_offers_range ON extraction_offers (scope_id, session_id, first_turn);
CREATE INDEX extraction_offers_open ON extraction_offers (scope_id, offered_at) WHERE done_at IS NULL;


-- ---------------------------------------------------------------- what one may do

CREATE FUNCTION rights_on(principal uuid, token uuid, scope uuid) RETURNS integer
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
    SELECT coalesce((SELECT r.rights FROM my_rights(principal, token) r WHERE r.scope_id = scope), 0)
$$;

CREATE FUNCTION scope_held(scope uuid) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
    SELECT EXISTS (SELECT FROM chain_of(ARRAY[scope], 9223372036854775806) c WHERE c.legal_hold)
$$;

-- A session for who writes to it, locked until the transaction ends: turns are numbered one after the other, and what is
-- offered and archived is decided by one at a time. What one may not read is not there.
CREATE FUNCTION held_session(principal uuid, token uuid, scope uuid, session text) RETURNS sessions
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
DECLARE
    mine integer := rights_on(principal, token, scope);
    found_one sessions;
BEGIN
    IF mine & 1 = 1 THEN
        SELECT * INTO found_one FROM sessions s WHERE s.scope_id = scope AND s.id = session FOR UPDATE;
    END IF;
    IF found_one.id IS NULL THEN
        PERFORM refuse('not_found', 'no such session');
    ELSIF mine & 2 = 0 THEN
        PERFORM refuse('denied', 'your rights on the scope of this session do not allow writing to it; it takes w');
    ELSIF found_one.erased_at IS NOT NULL THEN
        PERFORM refuse('wrong_state', 'this session was erased; begin another one, with another id');
    END IF;
    RETURN found_one;
END $$;

-- Offer all turns up to one, once: the offer and the mark that it was made are one transaction. The caller holds the row.
CREATE FUNCTION offer_turns(scope uuid, session text, through integer) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
BEGIN
    INSERT INTO extraction_offers (id, house_id, scope_id, session_id, agent_id, first_turn, last_turn, offered_at)
    SELECT gen_random_uuid(), s.house_id, s.scope_id, s.id, s.agent_id, s.offered_through + 1, through, clock_timestamp()
      FROM sessions s WHERE s.scope_id = scope AND s.id = session AND s.offered_through < through;
    UPDATE sessions s SET offered_through = through,
           settled = through = s.turns AND s.archived_through = s.turns
     WHERE s.scope_id = scope AND s.id = session AND s.offered_through < through;
END $$;


-- ---------------------------------------------------------------- sessions and turns

-- Begin a session, or take one up again. It takes r, and w where it is new.
CREATE FUNCTION open_session(principal uuid, token uuid, scope uuid, session text) RETURNS SETOF sessions
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
DECLARE
    mine integer := rights_on(principal, token, scope);
    found_one sessions;
BEGIN
    IF mine & 1 = 0 THEN
        PERFORM refuse('not_found', 'no such session');
    END IF;
    SELECT * INTO found_one FROM sessions s WHERE s.scope_id = scope AND s.id = session;
    IF NOT FOUND THEN
        IF mine & 2 = 0 THEN
            PERFORM refuse('denied', 'your rights on this scope do not allow beginning a session there; it takes w');
        END IF;
        INSERT INTO sessions (scope_id, id, house_id, agent_id, created_at, last_active_at)
        SELECT scope, session, p.house_id, principal, clock_timestamp(), clock_timestamp()
          FROM placements p WHERE p.scope_id = scope AND p.to_seq = 9223372036854775807
        ON CONFLICT (scope_id, id) DO NOTHING;
        SELECT * INTO found_one FROM sessions s WHERE s.scope_id = scope AND s.id = session;
    END IF;
    IF found_one.erased_at IS NOT NULL THEN
        PERFORM refuse('wrong_state', 'this session was erased; begin another one, with another id');
    END IF;
    RETURN NEXT found_one;
END $$;

-- Add turns, all or none, numbered on from the last. One whose message id is there already is not added again; with
-- other words it is a conflict. What has left the window of `kept` turns is offered, some turns at a time: an offer a turn
-- would be many, and what is not offered yet is offered when the session is left.
-- Answers with the turns that were meant, and with those after `known` that others added: so who adds a turn knows
-- the whole window again, without asking. The text of one's own is not sent back.
CREATE FUNCTION add_turns(principal uuid, token uuid, scope uuid, session text, kept integer, known integer, ids uuid[],
                          roles text[], contents text[], metadatas text[], messages text[], in_runtime text, in_run text)
RETURNS TABLE (turn integer, id uuid, agent_id uuid, role text, content text, metadata jsonb, message_id text,
               created_at timestamptz, fresh boolean, meant boolean, turns integer, revision integer)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    s sessions := held_session(principal, token, scope, session);
    at timestamptz := greatest(clock_timestamp(), s.last_active_at);
    repeated integer := 0; added integer; through integer;
BEGIN
    IF kept NOT BETWEEN 1 AND 100000 OR cardinality(ids) NOT BETWEEN 1 AND 1000 OR NOT cardinality(ids) = ALL (ARRAY[
        cardinality(roles), cardinality(contents), cardinality(metadatas), cardinality(messages)])
       OR array_position(contents, NULL) IS NOT NULL THEN
        PERFORM refuse('invalid_input', 'between 1 and 1000 turns can be added at once, each with its text');
    END IF;
    IF array_remove(messages, NULL) <> '{}' THEN
        SELECT count(*) INTO repeated FROM unnest(messages) m (message)
          JOIN interactions i ON i.scope_id = scope AND i.session_id = session AND i.message_id = m.message;
        IF repeated > 0 AND EXISTS (
            SELECT FROM unnest(roles, contents, messages) AS m (role, content, message)
              JOIN interactions i ON i.scope_id = scope AND i.session_id = session AND i.message_id = m.message
             WHERE i.agent_id <> principal OR i.role <> m.role OR i.content <> m.content) THEN
            PERFORM refuse('idempotency_conflict', 'this message id was used before in the session, with another turn');
        END IF;
    END IF;

    INSERT INTO interactions (id, house_id, scope_id, session_id, turn, agent_id, role, content, metadata, message_id,
                              runtime, run_id, created_at)
    SELECT m.id, s.house_id, scope, session, s.turns + row_number() OVER (ORDER BY m.ord), principal, m.role, m.content,
           m.metadata::jsonb, m.message, in_runtime, in_run, at
      FROM unnest(ids, roles, contents, metadatas, messages) WITH ORDINALITY AS m (id, role, content, metadata, message, ord)
     WHERE repeated = 0 OR m.message IS NULL OR NOT EXISTS (
        SELECT FROM interactions i WHERE i.scope_id = scope AND i.session_id = session AND i.message_id = m.message);
    GET DIAGNOSTICS added = ROW_COUNT;
    IF added > 0 THEN
        UPDATE sessions x SET turns = s.turns + added, last_active_at = at, closed_at = NULL, settled = false
         WHERE x.scope_id = scope AND x.id = session;
        through := s.turns + added - kept;
        IF through - s.offered_through >= greatest(1, kept / 5) THEN
            PERFORM offer_turns(scope, session, through);
        END IF;
    END IF;

    RETURN QUERY
    SELECT i.turn, i.id, i.agent_id, i.role, CASE WHEN i.turn <= s.turns THEN i.content END,
           CASE WHEN i.turn <= s.turns THEN i.metadata END, i.message_id, i.created_at, i.turn > s.turns,
           i.turn > s.turns OR coalesce(i.message_id = ANY (messages), false), s.turns + added, s.revision
      FROM interactions i
     WHERE i.scope_id = scope AND i.session_id = session AND i.turn > least(s.turns, greatest(known, s.turns + added - kept))
     UNION
    SELECT i.turn, i.id, i.agent_id, i.role, i.content, i.metadata, i.message_id, i.created_at, false, true,
           s.turns + added, s.revision
      FROM interactions i
     WHERE repeated > 0 AND i.scope_id = scope AND i.session_id = session AND i.message_id = ANY (messages)
       AND i.turn <= s.turns
     ORDER BY 1;
END $$;

-- Leave a session: what is still in its window is offered. `closing` says that it has come to its end.
CREATE FUNCTION leave_session(principal uuid, token uuid, scope uuid, session text, closing boolean) RETURNS SETOF sessions
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
DECLARE
    s sessions := held_session(principal, token, scope, session);
BEGIN
    PERFORM offer_turns(scope, session, s.turns);
    IF closing THEN
        UPDATE sessions x SET closed_at = coalesce(x.closed_at, clock_timestamp())
         WHERE x.scope_id = scope AND x.id = session;
    END IF;
    RETURN QUERY SELECT x.* FROM sessions x WHERE x.scope_id = scope AND x.id = session;
END $$;

-- Sessions that nobody has used for so long, and that were left by nobody: their runtime crashed, say. What they still have
-- is offered; answers with those that are still to be archived. Of several who sweep at once each takes others.
CREATE FUNCTION leave_idle_sessions(principal uuid, token uuid, idle interval, most integer)
RETURNS TABLE (scope_id uuid, id text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
#variable_conflict use_column
DECLARE
    s sessions;
BEGIN
    FOR s IN SELECT x.* FROM sessions x
              WHERE x.scope_id IN (SELECT r.scope_id FROM my_rights(principal, token) r WHERE r.rights & 3 = 3)
                AND NOT x.settled AND x.erased_at IS NULL AND x.last_active_at < clock_timestamp() - idle
              -- First those that have something to offer: ones that cannot be archived must not keep the others waiting.
              ORDER BY (x.offered_through >= x.turns), x.last_active_at LIMIT most FOR UPDATE SKIP LOCKED
    LOOP
        PERFORM offer_turns(s.scope_id, s.id, s.turns);
        IF s.archived_through < s.turns THEN
            scope_id := s.scope_id; id := s.id;
            RETURN NEXT;
        END IF;
    END LOOP;
END $$;

-- Which turns to archive: all since the last archive; or those that somebody began to archive and did not finish.
CREATE FUNCTION begin_archive(principal uuid, token uuid, scope uuid, session text)
RETURNS TABLE (first_turn integer, last_turn integer)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
DECLARE
    s sessions := held_session(principal, token, scope, session);
BEGIN
    IF s.archived_through < s.turns THEN
        UPDATE sessions x SET archiving_through = coalesce(s.archiving_through, s.turns)
         WHERE x.scope_id = scope AND x.id = session;
        RETURN QUERY SELECT s.archived_through + 1, coalesce(s.archiving_through, s.turns);
    END IF;
END $$;

CREATE FUNCTION finish_archive(principal uuid, token uuid, scope uuid, session text, through integer) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
BEGIN
    PERFORM held_session(principal, token, scope, session);
    UPDATE sessions s SET archived_through = through, archiving_through = NULL,
           settled = through = s.turns AND s.offered_through = s.turns
     WHERE s.scope_id = scope AND s.id = session AND s.archiving_through = through;
END $$;


-- ---------------------------------------------------------------- offers

-- Take offers that nobody has, for a while: who has not said `done` by then has crashed, and another may take it.
CREATE FUNCTION claim_offers(principal uuid, token uuid, most integer, lease interval)
RETURNS TABLE (id uuid, scope_id uuid, session_id text, agent_id uuid, first_turn integer, last_turn integer,
               offered_at timestamptz, claim uuid, claimed_until timestamptz, attempts integer)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    UPDATE extraction_offers o
       SET claim = gen_random_uuid(), claimed_until = clock_timestamp() + lease, attempts = o.attempts + 1
     WHERE o.id IN (
        SELECT x.id FROM extraction_offers x
         WHERE x.scope_id IN (SELECT r.scope_id FROM my_rights(principal, token) r WHERE r.rights & 3 = 3)
           AND x.done_at IS NULL AND (x.claimed_until IS NULL OR x.claimed_until < clock_timestamp())
         ORDER BY x.offered_at, x.id LIMIT most FOR UPDATE SKIP LOCKED)
    RETURNING o.id, o.scope_id, o.session_id, o.agent_id, o.first_turn, o.last_turn, o.offered_at, o.claim,
              o.claimed_until, o.attempts;
END $$;

-- `finished` or given back; true if it was this claim's to say.
CREATE FUNCTION end_claim(principal uuid, token uuid, offer uuid, claimed uuid, finished boolean) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
BEGIN
    UPDATE extraction_offers o
       SET done_at = CASE WHEN finished THEN coalesce(o.done_at, clock_timestamp()) ELSE o.done_at END,
           claimed_until = NULL, claim = CASE WHEN finished THEN o.claim END
     WHERE o.id = offer AND o.claim = claimed AND (finished OR o.done_at IS NULL)
       AND rights_on(principal, token, o.scope_id) & 3 = 3;
    RETURN FOUND;
END $$;


-- ---------------------------------------------------------------- the end of text

-- The turns of a session are deleted, and what was offered of them; the row stays, empty.
CREATE FUNCTION empty_session(scope uuid, session text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
BEGIN
    -- The session first, as all who write to it do: a turn that is just being added comes before, and goes too.
    PERFORM FROM sessions s WHERE s.scope_id = scope AND s.id = session FOR UPDATE;
    DELETE FROM interactions i WHERE i.scope_id = scope AND i.session_id = session;
    DELETE FROM extraction_offers o WHERE o.scope_id = scope AND o.session_id = session;
    UPDATE sessions s SET erased_at = clock_timestamp(), closed_at = coalesce(s.closed_at, clock_timestamp()),
           offered_through = s.turns, archived_through = s.turns, archiving_through = NULL, settled = true,
           revision = s.revision + 1
     WHERE s.scope_id = scope AND s.id = session;
END $$;

CREATE FUNCTION blank_turns(these uuid[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
BEGIN
    -- The sessions first and in one order, as all who write to a session do.
    UPDATE sessions s SET revision = s.revision + 1
      FROM (SELECT x.scope_id, x.id FROM sessions x
             WHERE (x.scope_id, x.id) IN (SELECT i.scope_id, i.session_id FROM interactions i WHERE i.id = ANY (these))
             ORDER BY x.scope_id, x.id FOR UPDATE) touched
     WHERE s.scope_id = touched.scope_id AND s.id = touched.id;
    UPDATE interactions i SET content = NULL, metadata = NULL WHERE i.id = ANY (these);
END $$;

-- What an erasure by source does to conversations, or with `dry` would do. By session: its turns, its offers. By run,
-- runtime or agent: the text of the turns that came from there. By person: that, and every session in the person's own
-- scope. Where one manages the scope, and it is not held; what one can read and does not manage is counted.
CREATE FUNCTION erase_interactions(principal uuid, token uuid, house uuid, by text, value text, dry boolean)
RETURNS TABLE (sessions bigint, turns bigint, held bigint, not_permitted bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
#variable_conflict use_column
DECLARE
    place record; names text[]; single uuid[]; many bigint; emptied bigint := 0; gone bigint := 0; kept bigint := 0;
    others bigint := 0;
BEGIN
    IF principal IS NULL AND login_kind() IS DISTINCT FROM 'app' OR by NOT IN ('session', 'run', 'runtime', 'agent', 'person') THEN
        RETURN;
    END IF;
    FOR place IN
        SELECT p.scope_id, principal IS NULL OR manages(principal, token, p.scope_id) AS managed,
               rights_on(principal, token, p.scope_id) & 1 = 1 AS readable, scope_held(p.scope_id) AS held
          FROM (SELECT DISTINCT x.scope_id FROM sessions x
                 WHERE x.house_id = house AND (by <> 'session' OR x.id = value)) p ORDER BY p.scope_id
    LOOP
        names := ARRAY(SELECT x.id FROM sessions x WHERE x.scope_id = place.scope_id AND x.erased_at IS NULL
                          AND (by = 'session' AND x.id = value OR by = 'person' AND x.scope_id::text = value) ORDER BY x.id);
        single := ARRAY(SELECT i.id FROM interactions i
                         WHERE by <> 'session' AND i.scope_id = place.scope_id AND i.content IS NOT NULL AND CASE by
                               WHEN 'run' THEN i.run_id = value WHEN 'runtime' THEN i.runtime = value
                               ELSE i.agent_id::text = value AND i.session_id <> ALL (names) END);
        SELECT count(*) + cardinality(single) INTO many FROM interactions i
         WHERE i.scope_id = place.scope_id AND i.session_id = ANY (names) AND i.content IS NOT NULL;
        IF place.managed AND place.held THEN
            kept := kept + many;
        ELSIF place.managed THEN
            emptied := emptied + cardinality(names);
            gone := gone + many;
            IF NOT dry THEN
                PERFORM empty_session(place.scope_id, n.name) FROM unnest(names) AS n (name);
                PERFORM blank_turns(single);
            END IF;
        ELSIF place.readable THEN
            others := others + many;
        END IF;
    END LOOP;
    RETURN QUERY SELECT emptied, gone, kept, others;
END $$;

-- With the text of a memory goes that of the turns which its evidence names: in the memory's own scope, in the scope of who
-- named them, and what that agent said itself elsewhere. No further: to name somebody's turn must not be a way to erase it.
CREATE FUNCTION erase_evidence() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp SET enable_seqscan = off AS $$
DECLARE
    named uuid[];
BEGIN
    SELECT array_agg(DISTINCT i.id) INTO named
      FROM (SELECT e.session_id, e.actor_id,
                   ARRAY(SELECT json_array_elements_text(e.data::json -> 'evidence' -> 'messages')) AS messages
              FROM events e
             WHERE e.subject_id = NEW.id AND e.house_id IS NOT DISTINCT FROM NEW.house_id AND e.session_id IS NOT NULL
               AND json_typeof(e.data::json -> 'evidence' -> 'messages') = 'array') e
      JOIN sessions s ON s.house_id = NEW.house_id AND s.id = e.session_id
      JOIN interactions i ON i.scope_id = s.scope_id AND i.session_id = s.id
       AND (i.message_id = ANY (e.messages) OR i.id::text = ANY (e.messages))
     WHERE i.content IS NOT NULL AND (s.scope_id IN (NEW.parent_id, e.actor_id) OR i.agent_id = e.actor_id)
       AND NOT scope_held(s.scope_id);
    IF named IS NOT NULL THEN
        PERFORM blank_turns(named);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER erase_evidence AFTER UPDATE ON memories FOR EACH ROW
    WHEN (NEW.status = 'erased' AND OLD.status <> 'erased') EXECUTE FUNCTION erase_evidence();

-- Who is erased as a person takes along every conversation that was theirs alone.
CREATE FUNCTION erase_own_sessions() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
BEGIN
    PERFORM FROM sessions s WHERE s.scope_id = NEW.id ORDER BY s.id FOR UPDATE;
    DELETE FROM interactions i WHERE i.scope_id = NEW.id;
    DELETE FROM extraction_offers o WHERE o.scope_id = NEW.id;
    DELETE FROM sessions s WHERE s.scope_id = NEW.id;
    RETURN NULL;
END $$;
CREATE TRIGGER erase_own_sessions AFTER UPDATE ON scopes FOR EACH ROW
    WHEN (NEW.status = 'erased' AND OLD.status <> 'erased') EXECUTE FUNCTION erase_own_sessions();

-- Retention, for the operator: turns from before a time go. Never what was not offered yet, nor what is held; nor, unless
-- `unread`, what was offered and is still waiting to be searched. Some at a time, so that nobody waits for long.
CREATE FUNCTION prune_interactions(before timestamptz, unread boolean, most integer) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
DECLARE
    gone bigint;
BEGIN
    IF login_kind() IS DISTINCT FROM 'app' THEN
        PERFORM refuse('denied', 'only the operator prunes conversations');
    END IF;
    WITH held AS MATERIALIZED (
        SELECT d.scope_id FROM (SELECT DISTINCT x.scope_id FROM sessions x) d WHERE scope_held(d.scope_id)
    ), due AS MATERIALIZED (
        SELECT i.id FROM interactions i JOIN sessions s ON s.scope_id = i.scope_id AND s.id = i.session_id
         WHERE i.created_at < before AND i.turn <= s.offered_through AND i.scope_id NOT IN (SELECT h.scope_id FROM held h)
           AND (unread OR NOT EXISTS (
                SELECT FROM extraction_offers o WHERE o.scope_id = i.scope_id AND o.session_id = i.session_id
                   AND i.turn BETWEEN o.first_turn AND o.last_turn AND o.done_at IS NULL))
         LIMIT most)
    DELETE FROM interactions i USING due WHERE i.id = due.id;
    GET DIAGNOSTICS gone = ROW_COUNT;
    DELETE FROM extraction_offers o WHERE o.done_at < before OR unread AND o.offered_at < before AND NOT EXISTS (
        SELECT FROM interactions i WHERE i.scope_id = o.scope_id AND i.session_id = o.session_id
           AND i.turn BETWEEN o.first_turn AND o.last_turn);
    RETURN gone;
END $$;

-- Row-level security, as everywhere: see 0001_policies.sql.
ALTER TABLE sessions ENABLE ROW LEVEL SECURITY;
ALTER TABLE sessions FORCE ROW LEVEL SECURITY;
CREATE POLICY owner_all ON sessions TO CURRENT_USER USING (true) WITH CHECK (true);
CREATE POLICY readable ON sessions FOR SELECT USING (scope_id = ANY ((SELECT visible_scopes())::uuid[]));
ALTER TABLE interactions ENABLE ROW LEVEL SECURITY;
ALTER TABLE interactions FORCE ROW LEVEL SECURITY;
CREATE POLICY owner_all ON interactions TO CURRENT_USER USING (true) WITH CHECK (true);
CREATE POLICY readable ON interactions FOR SELECT USING (scope_id = ANY ((SELECT visible_scopes())::uuid[]));
ALTER TABLE extraction_offers ENABLE ROW LEVEL SECURITY;
ALTER TABLE extraction_offers FORCE ROW LEVEL SECURITY;
CREATE POLICY owner_all ON extraction_offers TO CURRENT_USER USING (true) WITH CHECK (true);
CREATE POLICY readable ON extraction_offers FOR SELECT USING (scope_id = ANY ((SELECT visible_scopes())::uuid[]));
