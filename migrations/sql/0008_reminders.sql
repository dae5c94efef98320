-- Reminders: what an agent wants to be told, when, and through which deliverer.
--
-- A reminder that is to be delivered has a `next_at`: when it is due, or when it is tried again, or when the lease of
-- who has it now runs out. One that rests (delivered, failed, cancelled, erased) has none. So there is one question,
-- "whose next_at has passed?", and one index for it, in which what was delivered long ago does not lie.
-- Clocks differ, so only that of the database says what is due and which lease has run out.

CREATE TABLE reminders (
    id uuid PRIMARY KEY,
    house_id uuid NOT NULL,
    agent_id uuid NOT NULL REFERENCES scopes,
    memory_id uuid,  -- what it is about: erased with it
    session_id text,
    run_id text,
    runtime text,
    plugin text NOT NULL CHECK (plugin ~ '^[a-z][a-z0-9_.-]{0,62}$'),
    recipient text,
    message text,
    digest bytea,  -- of all that was asked for: whether the same id means the same
    starts_at timestamptz NOT NULL,  -- from where a recurrence counts
    every interval CHECK (every > interval '0'),
    rrule text,
    zone text NOT NULL,
    occurrence integer NOT NULL,
    delivery_id uuid NOT NULL,  -- of this occurrence, however often it is tried
    due_at timestamptz NOT NULL,
    next_at timestamptz,
    claim uuid,
    claimed_at timestamptz,
    claimed_by text,
    lease_until timestamptz,
    attempts integer NOT NULL DEFAULT 0,  -- how often this occurrence was claimed
    missed integer NOT NULL DEFAULT 0,  -- occurrences that were given up
    last_error text CHECK (last_error ~ '^[A-Za-z_][A-Za-z0-9_.]{0,99}$'),
    delivered_at timestamptz,  -- the last time
    failed_at timestamptz,
    cancelled_at timestamptz,
    erased_at timestamptz,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    CHECK ((erased_at IS NULL) = (message IS NOT NULL)),
    CHECK (every IS NULL OR rrule IS NULL)
);
CREATE INDEX reminders_next ON reminders (agent_id, plugin, next_at) WHERE next_at IS NOT NULL;
CREATE INDEX reminders_agent ON reminders (agent_id, due_at, id);
CREATE INDEX reminders_memory ON reminders (memory_id) WHERE memory_id IS NOT NULL;
CREATE INDEX reminders_session ON reminders (house_id, session_id) WHERE session_id IS NOT NULL;
CREATE INDEX reminders_age ON reminders (updated_at) WHERE next_at IS NULL;
ALTER TABLE reminders ALTER message SET STATISTICS 0, ALTER recipient SET STATISTICS 0, ALTER digest SET STATISTICS 0;

-- What the deliverer `inbox` has put before an agent. The text stays with the reminder: there is one copy to erase.
CREATE TABLE inbox (
    delivery_id uuid PRIMARY KEY,
    agent_id uuid NOT NULL,
    reminder_id uuid NOT NULL REFERENCES reminders ON DELETE CASCADE,
    due_at timestamptz NOT NULL,
    put_at timestamptz NOT NULL,
    read_at timestamptz
);
CREATE INDEX inbox_unread ON inbox (agent_id, put_at, delivery_id) WHERE read_at IS NULL;
CREATE INDEX inbox_reminder ON inbox (reminder_id);

-- The same for every try of one occurrence, and for no other occurrence.
CREATE FUNCTION delivery_of(reminder uuid, occurrence integer) RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT encode(substr(sha256(uuid_send(reminder) || int4send(occurrence)), 1, 16), 'hex')::uuid
$$;

CREATE FUNCTION reminder_state(r reminders) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN r.erased_at IS NOT NULL THEN 'erased'
                WHEN r.cancelled_at IS NOT NULL THEN 'cancelled'
                WHEN r.failed_at IS NOT NULL THEN 'failed'
                WHEN r.next_at IS NULL THEN 'delivered'
                WHEN r.claim IS NOT NULL AND r.lease_until > clock_timestamp() THEN 'claimed'
                ELSE 'waiting' END
$$;

-- A reminder as others may see it: who manages an agent without reading it gets the times, and no text.
-- The digest would let one guess the text, and the claim is for who has it.
CREATE FUNCTION shown_reminder(r reminders, readable boolean) RETURNS reminders
LANGUAGE plpgsql STABLE AS $$
BEGIN
    r.digest := NULL;
    r.claim := NULL;
    IF NOT readable THEN
        r.message := NULL;
        r.recipient := NULL;
        r.session_id := NULL;
        r.run_id := NULL;
        r.memory_id := NULL;
    END IF;
    RETURN r;
END $$;

-- Whether a credential acts for the agent that it names: on its own scope, with these rights.
CREATE FUNCTION is_agent(principal uuid, token uuid, wanted integer) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
    SELECT EXISTS (SELECT FROM my_rights(principal, token) r WHERE r.scope_id = principal AND r.rights & wanted = wanted)
$$;

CREATE FUNCTION add_reminder(principal uuid, token uuid, ident uuid, about uuid, session text, run text, named_runtime text,
                             via text, recipient text, message text, digest bytea, due timestamptz, starts timestamptz,
                             every interval, rrule text, zone text)
RETURNS TABLE (reminder reminders, state text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    moment timestamptz := clock_timestamp();
    one reminders;
BEGIN
    IF NOT is_agent(principal, token, 1) THEN
        PERFORM refuse('not_found', 'no such scope');
    ELSIF NOT is_agent(principal, token, 3) THEN
        PERFORM refuse('denied', 'your token may only read; it takes w to be reminded');
    END IF;
    -- Locked against an erasure under way, which else would miss what comes after it.
    PERFORM FROM memories m WHERE m.id = about AND m.status <> 'erased'
        AND m.parent_id IN (SELECT r.scope_id FROM my_rights(principal, token) r WHERE r.rights & 1 = 1) FOR SHARE;
    IF about IS NOT NULL AND NOT FOUND THEN
        PERFORM refuse('not_found', 'no such memory');
    END IF;
    INSERT INTO reminders AS r (id, house_id, agent_id, memory_id, session_id, run_id, runtime, plugin, recipient, message, digest,
                                starts_at, every, rrule, zone, occurrence, delivery_id, due_at, next_at, created_at, updated_at)
    SELECT ident, s.house_id, principal, about, session, run, named_runtime, via, add_reminder.recipient, add_reminder.message,
           add_reminder.digest, starts, add_reminder.every, add_reminder.rrule, add_reminder.zone, 1, delivery_of(ident, 1),
           due, due, moment, moment
      FROM scopes s WHERE s.id = principal
    ON CONFLICT (id) DO NOTHING RETURNING r.* INTO one;
    IF one.id IS NULL THEN
        SELECT r.* INTO one FROM reminders r WHERE r.id = ident AND r.agent_id = principal
           AND (r.digest = add_reminder.digest OR r.erased_at IS NOT NULL);
        IF one.id IS NULL THEN
            PERFORM refuse('idempotency_conflict', 'this id was used before, for another reminder; choose a new one');
        END IF;
    END IF;
    RETURN QUERY SELECT shown_reminder(one, true), reminder_state(one);
END $$;

-- The reminders of one agent, by due time, or a single one: for who reads the agent's scope, or manages it.
CREATE FUNCTION read_reminders(principal uuid, token uuid, only_id uuid, of_agent uuid, wanted text[], after uuid, most integer)
RETURNS TABLE (reminder reminders, state text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = substrate, pg_temp SET enable_seqscan = off AS $$
DECLARE
    whose uuid := coalesce(of_agent, (SELECT r.agent_id FROM reminders r WHERE r.id = only_id));
    readable boolean := EXISTS (SELECT FROM my_rights(principal, token) m WHERE m.scope_id = whose AND m.rights & 1 = 1);
BEGIN
    IF whose IS NULL OR NOT (readable OR manages(principal, token, whose)) THEN
        RETURN;
    ELSIF only_id IS NOT NULL THEN
        RETURN QUERY SELECT shown_reminder(r, readable), reminder_state(r) FROM reminders r WHERE r.id = only_id AND r.agent_id = whose;
    ELSE
        RETURN QUERY
        SELECT shown_reminder(r, readable), reminder_state(r) FROM reminders r
         WHERE r.agent_id = whose AND (wanted IS NULL OR reminder_state(r) = ANY (wanted))
           AND (after IS NULL OR (r.due_at, r.id) > (SELECT a.due_at, a.id FROM reminders a WHERE a.id = after AND a.agent_id = whose))
         ORDER BY r.due_at, r.id LIMIT most;
    END IF;
END $$;

-- One reminder, locked, for who may change it: the agent itself, or who holds x on its scope; to end it, also who manages it.
CREATE FUNCTION my_reminder(principal uuid, token uuid, ident uuid, ending boolean) RETURNS reminders
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
DECLARE
    one reminders;
    mine integer;
    managed boolean;
BEGIN
    SELECT r.* INTO one FROM reminders r WHERE r.id = ident;
    SELECT m.rights INTO mine FROM my_rights(principal, token) m WHERE m.scope_id = one.agent_id;
    managed := manages(principal, token, one.agent_id);
    IF one.id IS NULL OR NOT (coalesce(mine, 0) & 1 = 1 OR managed) THEN
        PERFORM refuse('not_found', 'no such reminder');
    ELSIF NOT (coalesce(mine, 0) & 4 = 4 OR (one.agent_id = principal AND mine & 2 = 2) OR (ending AND managed)) THEN
        PERFORM refuse('denied', 'this reminder is another''s; it takes x on its agent''s scope');
    END IF;
    SELECT r.* INTO one FROM reminders r WHERE r.id = ident FOR UPDATE;
    IF one.id IS NULL THEN
        PERFORM refuse('not_found', 'no such reminder');
    END IF;
    RETURN one;
END $$;

CREATE FUNCTION cancel_reminder(principal uuid, token uuid, ident uuid)
RETURNS TABLE (reminder reminders, state text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
DECLARE
    one reminders := my_reminder(principal, token, ident, true);
BEGIN
    IF reminder_state(one) = 'delivered' THEN
        PERFORM refuse('wrong_state', 'it was delivered already; there is nothing left to cancel');
    END IF;
    UPDATE reminders r SET next_at = NULL, claim = NULL, lease_until = NULL, cancelled_at = clock_timestamp(), updated_at = clock_timestamp()
     WHERE r.id = ident AND r.erased_at IS NULL AND r.cancelled_at IS NULL;
    RETURN QUERY SELECT * FROM read_reminders(principal, token, ident, NULL, NULL, NULL, 1);
END $$;

-- Another time for this occurrence. It is a delivery of its own: one that is just under way, or that nobody could mark as
-- done, must not let a deliverer take the new one for a repeat. Who has it claimed has it no longer.
CREATE FUNCTION move_reminder(principal uuid, token uuid, ident uuid, due timestamptz, due_in interval)
RETURNS TABLE (reminder reminders, state text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
DECLARE
    one reminders := my_reminder(principal, token, ident, false);
    moment timestamptz := clock_timestamp();
BEGIN
    IF reminder_state(one) IN ('cancelled', 'erased') THEN
        PERFORM refuse('wrong_state', format('it was %s; make a new one', reminder_state(one)));
    END IF;
    UPDATE reminders r
       SET occurrence = r.occurrence + 1, delivery_id = delivery_of(r.id, r.occurrence + 1), due_at = coalesce(due, moment + due_in),
           next_at = coalesce(due, moment + due_in), claim = NULL, lease_until = NULL, attempts = 0, failed_at = NULL,
           last_error = NULL, updated_at = moment
     WHERE r.id = ident;
    RETURN QUERY SELECT * FROM read_reminders(principal, token, ident, NULL, NULL, NULL, 1);
END $$;

-- ---------------------------------------------------------------- delivering

-- Take up to `most` reminders that are due, of these agents and for these deliverers, for as long as a lease. Each agent
-- and deliverer gets its share first, the longest due foremost, and then what is left: one with a million holds nobody up.
-- SKIP LOCKED: who is just being claimed by another process is passed over; that process has it.
CREATE FUNCTION claim_reminders(principals uuid[], tokens uuid[], plugins text[], named_runtime text, lease interval, most integer,
                                most_attempts integer)
RETURNS TABLE (reminder reminders, state text, token uuid)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    room integer := most;
    share integer;
    taken integer;
    more boolean := true;
    pair record;
BEGIN
    FOR turn IN 1..2 LOOP
        EXIT WHEN room <= 0 OR NOT more;
        more := false;
        FOR pair IN
            SELECT c.principal, c.token, p.plugin, count(*) OVER () AS pairs
              FROM unnest(principals, tokens) AS c (principal, token)
             CROSS JOIN unnest(plugins) AS p (plugin)
             CROSS JOIN LATERAL (
                SELECT r.next_at FROM reminders r WHERE r.agent_id = c.principal AND r.plugin = p.plugin
                   AND r.next_at <= moment ORDER BY r.next_at LIMIT 1) d
             ORDER BY d.next_at
        LOOP
            EXIT WHEN room <= 0;
            -- Asked only for who has something due: the walk costs more than the look.
            CONTINUE WHEN NOT is_agent(pair.principal, pair.token, 3);
            share := least(room, CASE turn WHEN 1 THEN greatest(1, most / pair.pairs) ELSE room END);
            RETURN QUERY
            WITH free AS (
                SELECT r.id FROM reminders r WHERE r.agent_id = pair.principal AND r.plugin = pair.plugin
                   AND r.next_at <= moment
                 ORDER BY r.next_at LIMIT share FOR UPDATE SKIP LOCKED
            ), done AS (
                -- Whoever took it so often never came back: it may be what kills them.
                UPDATE reminders r
                   SET claim = CASE WHEN r.attempts < most_attempts THEN gen_random_uuid() END,
                       next_at = CASE WHEN r.attempts < most_attempts THEN moment + lease END,
                       failed_at = CASE WHEN r.attempts < most_attempts THEN NULL ELSE moment END,
                       last_error = CASE WHEN r.attempts < most_attempts THEN r.last_error ELSE 'abandoned' END,
                       claimed_at = moment, claimed_by = named_runtime, lease_until = moment + lease,
                       attempts = r.attempts + 1, updated_at = moment
                  FROM free WHERE r.id = free.id
                RETURNING r.*)
            SELECT ROW(done.*)::reminders, 'claimed', pair.token FROM done WHERE done.claim IS NOT NULL;
            GET DIAGNOSTICS taken = ROW_COUNT;
            room := room - taken;
            more := more OR taken = share;
        END LOOP;
    END LOOP;
END $$;

-- Keep what one has for another lease. Answers which of them one still has.
CREATE FUNCTION renew_reminders(principals uuid[], tokens uuid[], ids uuid[], claims uuid[], lease interval) RETURNS SETOF uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp SET enable_seqscan = off AS $$
DECLARE
    moment timestamptz := clock_timestamp();
BEGIN
    RETURN QUERY
    UPDATE reminders r SET lease_until = moment + lease, next_at = moment + lease
      FROM unnest(principals, tokens, ids, claims) AS u (principal, token, id, claim)
     WHERE r.id = u.id AND r.agent_id = u.principal AND r.claim = u.claim AND is_agent(u.principal, u.token, 3)
    RETURNING r.id;
END $$;

-- It was delivered; `next_due` is when the next occurrence is due. False where the claim is no longer the caller's.
CREATE FUNCTION finish_reminder(principal uuid, token uuid, ident uuid, of_claim uuid, next_due timestamptz) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
BEGIN
    UPDATE reminders r SET delivered_at = clock_timestamp(), last_error = NULL, failed_at = NULL
     WHERE r.id = ident AND r.agent_id = principal AND r.claim = of_claim AND is_agent(principal, token, 3);
    IF FOUND THEN
        PERFORM go_on(ident, next_due);
        RETURN true;
    END IF;
    RETURN false;
END $$;

-- On to the next occurrence, or to rest.
CREATE FUNCTION go_on(ident uuid, next_due timestamptz) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
    UPDATE reminders r
       SET claim = NULL, lease_until = NULL, updated_at = clock_timestamp(), next_at = n.due,
           due_at = coalesce(n.due, r.due_at), attempts = CASE WHEN n.due IS NULL THEN r.attempts ELSE 0 END,
           occurrence = CASE WHEN n.due IS NULL THEN r.occurrence ELSE r.occurrence + 1 END,
           delivery_id = CASE WHEN n.due IS NULL THEN r.delivery_id ELSE delivery_of(r.id, r.occurrence + 1) END
      FROM reminders o
     CROSS JOIN LATERAL (SELECT CASE WHEN (o.every IS NOT NULL OR o.rrule IS NOT NULL) AND next_due > o.due_at THEN next_due END AS due) n
     WHERE r.id = ident AND o.id = ident
$$;

-- It could not be delivered: tried again after a while, or given up after so many attempts. One that recurs goes on with its
-- next occurrence then; another rests. False where the claim is no longer the caller's.
CREATE FUNCTION fail_reminder(principal uuid, token uuid, ident uuid, of_claim uuid, code text, again_in interval,
                              most_attempts integer, next_due timestamptz) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    tried integer;
BEGIN
    UPDATE reminders r SET last_error = code, claim = NULL, lease_until = NULL, next_at = moment + again_in, updated_at = moment
     WHERE r.id = ident AND r.agent_id = principal AND r.claim = of_claim AND is_agent(principal, token, 3)
    RETURNING r.attempts INTO tried;
    IF tried >= most_attempts THEN
        PERFORM go_on(ident, next_due);
        UPDATE reminders r SET missed = r.missed + 1, failed_at = CASE WHEN r.next_at IS NULL THEN moment END WHERE r.id = ident;
    END IF;
    RETURN tried IS NOT NULL;
END $$;

-- Seconds until there is something to do for these agents and deliverers; NULL where nothing is planned.
CREATE FUNCTION next_reminder(principals uuid[], tokens uuid[], plugins text[]) RETURNS double precision
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = substrate, pg_temp SET enable_seqscan = off AS $$
DECLARE
    pair record;
BEGIN
    FOR pair IN
        SELECT c.principal, c.token, d.next_at
          FROM unnest(principals, tokens) AS c (principal, token)
         CROSS JOIN unnest(plugins) AS p (plugin)
         CROSS JOIN LATERAL (
            SELECT r.next_at FROM reminders r WHERE r.agent_id = c.principal AND r.plugin = p.plugin AND r.next_at IS NOT NULL
             ORDER BY r.next_at LIMIT 1) d
         ORDER BY d.next_at
    LOOP
        IF is_agent(pair.principal, pair.token, 3) THEN
            RETURN extract(epoch FROM pair.next_at - clock_timestamp());
        END IF;
    END LOOP;
    RETURN NULL;
END $$;

-- ---------------------------------------------------------------- the inbox

-- Put what is being delivered before its agent; a repeat finds it there. Only for who has it claimed.
CREATE FUNCTION put_in_inbox(principal uuid, token uuid, ident uuid, of_claim uuid) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
DECLARE
    claimed reminders;
BEGIN
    SELECT r.* INTO claimed FROM reminders r
     WHERE r.id = ident AND r.agent_id = principal AND r.claim = of_claim AND is_agent(principal, token, 3) FOR SHARE;
    INSERT INTO inbox (delivery_id, agent_id, reminder_id, due_at, put_at)
    SELECT claimed.delivery_id, principal, ident, claimed.due_at, clock_timestamp() WHERE claimed.id IS NOT NULL
    ON CONFLICT (delivery_id) DO NOTHING;
    RETURN claimed.id IS NOT NULL;
END $$;

CREATE FUNCTION read_inbox(principal uuid, token uuid, most integer)
RETURNS TABLE (delivery_id uuid, reminder_id uuid, due_at timestamptz, put_at timestamptz, message text, recipient text,
               session_id text, memory_id uuid)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = substrate, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF is_agent(principal, token, 1) THEN
        RETURN QUERY SELECT i.delivery_id, i.reminder_id, i.due_at, i.put_at, r.message, r.recipient, r.session_id, r.memory_id
                       FROM inbox i JOIN reminders r ON r.id = i.reminder_id
                      WHERE i.agent_id = principal AND i.read_at IS NULL AND r.erased_at IS NULL
                      ORDER BY i.put_at, i.delivery_id LIMIT most;
    END IF;
END $$;

CREATE FUNCTION mark_inbox(principal uuid, token uuid, deliveries uuid[]) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp SET enable_seqscan = off AS $$
DECLARE
    marked bigint := 0;
BEGIN
    IF is_agent(principal, token, 2) THEN
        UPDATE inbox i SET read_at = clock_timestamp()
         WHERE i.delivery_id = ANY (deliveries) AND i.agent_id = principal AND i.read_at IS NULL;
        GET DIAGNOSTICS marked = ROW_COUNT;
    END IF;
    RETURN marked;
END $$;

-- ---------------------------------------------------------------- erasing and keeping house

CREATE FUNCTION erase_reminder_rows(ids uuid[]) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp SET enable_seqscan = off AS $$
DECLARE
    gone bigint;
BEGIN
    UPDATE reminders r
       SET message = NULL, recipient = NULL, session_id = NULL, run_id = NULL, digest = NULL, next_at = NULL, claim = NULL,
           lease_until = NULL, erased_at = clock_timestamp(), updated_at = clock_timestamp()
     WHERE r.id = ANY (ids) AND r.erased_at IS NULL;
    GET DIAGNOSTICS gone = ROW_COUNT;
    RETURN gone;
END $$;

-- What a source said in reminders: a session, run or runtime in which they were made, or the agent whose they are. For who
-- manages the agent, or the operator (no principal); what is under legal hold stays. Returns how many were erased; with
-- `dry_run` how many would be.
CREATE FUNCTION erase_reminders(principal uuid, token uuid, house uuid, by text, value text, dry_run boolean) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp SET enable_seqscan = off AS $$
DECLARE
    ids uuid[];
BEGIN
    CASE by
        WHEN 'session' THEN ids := ARRAY(SELECT r.id FROM reminders r WHERE r.house_id = house AND r.session_id = value);
        WHEN 'memory' THEN ids := ARRAY(SELECT r.id FROM reminders r WHERE r.memory_id = value::uuid);
        WHEN 'agent', 'person' THEN ids := ARRAY(SELECT r.id FROM reminders r WHERE r.agent_id = value::uuid);
        WHEN 'run' THEN ids := ARRAY(SELECT r.id FROM reminders r WHERE r.run_id = value);
        WHEN 'runtime' THEN ids := ARRAY(SELECT r.id FROM reminders r WHERE r.runtime = value);
    END CASE;
    WITH hit AS MATERIALIZED (
        SELECT r.id, r.agent_id FROM reminders r WHERE r.id = ANY (ids) AND r.house_id = house AND r.erased_at IS NULL
    ), allowed AS MATERIALIZED (
        SELECT a.agent_id FROM (SELECT DISTINCT h.agent_id FROM hit h) a
         WHERE CASE WHEN principal IS NULL THEN login_kind() = 'app' ELSE manages(principal, token, a.agent_id) END
           AND NOT scope_held(a.agent_id)
    )
    SELECT array_agg(h.id ORDER BY h.id) INTO ids FROM hit h JOIN allowed a ON a.agent_id = h.agent_id;
    RETURN CASE WHEN dry_run THEN coalesce(cardinality(ids), 0) ELSE erase_reminder_rows(coalesce(ids, '{}')) END;
END $$;

-- With a memory goes what reminds of it; with a person all that the person wanted to be told.
CREATE FUNCTION erase_reminders_about() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp SET enable_seqscan = off AS $$
BEGIN
    PERFORM erase_reminder_rows(ARRAY(
        SELECT r.id FROM reminders r WHERE r.memory_id = NEW.id AND NOT scope_held(r.agent_id) ORDER BY r.id));
    RETURN NULL;
END $$;
CREATE TRIGGER erase_reminders_about AFTER UPDATE ON memories FOR EACH ROW
    WHEN (NEW.status = 'erased' AND OLD.status <> 'erased') EXECUTE FUNCTION erase_reminders_about();

CREATE FUNCTION erase_reminders_of() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp SET enable_seqscan = off AS $$
BEGIN
    PERFORM erase_reminder_rows(ARRAY(SELECT r.id FROM reminders r WHERE r.agent_id = NEW.id ORDER BY r.id));
    RETURN NULL;
END $$;
CREATE TRIGGER erase_reminders_of AFTER UPDATE ON scopes FOR EACH ROW
    WHEN (NEW.status = 'erased' AND OLD.status <> 'erased') EXECUTE FUNCTION erase_reminders_of();

-- Those that have rested since before a time, at most so many at once; what an agent has not read yet stays. For the operator.
CREATE FUNCTION prune_reminders(before timestamptz, most integer) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp SET enable_seqscan = off AS $$
DECLARE
    gone bigint;
BEGIN
    IF login_kind() IS DISTINCT FROM 'app' THEN
        PERFORM refuse('denied', 'only the operator prunes reminders');
    END IF;
    WITH old AS (
        SELECT r.id FROM reminders r
         WHERE r.next_at IS NULL AND r.updated_at < before
           AND NOT EXISTS (SELECT FROM inbox i WHERE i.reminder_id = r.id AND i.read_at IS NULL AND r.erased_at IS NULL)
           AND NOT scope_held(r.agent_id)
         ORDER BY r.updated_at LIMIT most FOR UPDATE SKIP LOCKED)
    DELETE FROM reminders r USING old WHERE r.id = old.id;
    GET DIAGNOSTICS gone = ROW_COUNT;
    RETURN gone;
END $$;

-- How it stands with the reminders of each house, for the operator: numbers, no text.
CREATE FUNCTION reminder_counts()
RETURNS TABLE (house_id uuid, waiting bigint, overdue bigint, failed bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
    SELECT r.house_id, count(*) FILTER (WHERE r.next_at IS NOT NULL),
           -- A minute late: whoever delivers such ones does not run, or lacks the deliverer.
           count(*) FILTER (WHERE r.next_at < clock_timestamp() - interval '1 minute'), count(*) FILTER (WHERE r.failed_at IS NOT NULL)
      FROM reminders r
     WHERE login_kind() = 'app' AND (r.next_at IS NOT NULL OR r.failed_at IS NOT NULL) AND r.erased_at IS NULL AND r.cancelled_at IS NULL
     GROUP BY r.house_id ORDER BY r.house_id
$$;

ALTER TABLE reminders ENABLE ROW LEVEL SECURITY;
ALTER TABLE reminders FORCE ROW LEVEL SECURITY;
CREATE POLICY owner_all ON reminders TO CURRENT_USER USING (true) WITH CHECK (true);
CREATE POLICY readable ON reminders FOR SELECT USING (agent_id = ANY ((SELECT visible_scopes())::uuid[]));

ALTER TABLE inbox ENABLE ROW LEVEL SECURITY;
ALTER TABLE inbox FORCE ROW LEVEL SECURITY;
CREATE POLICY owner_all ON inbox TO CURRENT_USER USING (true) WITH CHECK (true);
CREATE POLICY readable ON inbox FOR SELECT USING (agent_id = ANY ((SELECT visible_scopes())::uuid[]));
