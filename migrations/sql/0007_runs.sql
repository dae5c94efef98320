-- Observability memory of shared work: runs and what happened in them. It is history of execution only: nothing is learned
-- from it, nothing is rebuilt from it, and it is pruned when it is old.
--
-- Text that people or models wrote is in two columns, `runs.name` and `run_events.body`, and goes with an erasure.

-- A run is one process's piece of work; a run of kind `session` holds the lifecycle of a session, whoever hosts it.
CREATE TABLE runs (
    id uuid PRIMARY KEY,
    house_id uuid NOT NULL,
    scope_id uuid NOT NULL REFERENCES scopes,
    agent_id uuid NOT NULL,
    kind text NOT NULL CHECK (kind IN ('run', 'session')),
    parent_id uuid,
    runtime text,
    session_id text,
    name text,
    status text NOT NULL CHECK (status IN ('running', 'ok', 'failed', 'cancelled')),
    started_at timestamptz NOT NULL,
    finished_at timestamptz,
    heard_at timestamptz NOT NULL,
    events integer NOT NULL
) WITH (fillfactor = 80);
CREATE INDEX runs_scope ON runs (scope_id, started_at, id);
CREATE INDEX runs_agent ON runs (agent_id, started_at);
CREATE INDEX runs_age ON runs (started_at);
CREATE INDEX runs_parent ON runs (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX runs_session ON runs (house_id, session_id) WHERE session_id IS NOT NULL;
ALTER TABLE runs ALTER name SET STATISTICS 0;

-- `names` are the memories that an event speaks of: with one of them its text goes.
CREATE TABLE run_events (
    run_id uuid NOT NULL REFERENCES runs ON DELETE CASCADE,
    number integer NOT NULL,
    kind text NOT NULL,
    at timestamptz NOT NULL,
    names uuid[] NOT NULL,
    body text,
    PRIMARY KEY (run_id, number)
);
CREATE INDEX run_events_names ON run_events USING gin (names) WHERE names <> '{}';
ALTER TABLE run_events ALTER body SET STATISTICS 0;

-- Erasures by source, for texts that are not here yet, or never: those on their way in a buffer, and those in the files of
-- runtimes, which ask. `scopes` are those that the erasure reached; NULL is all of the house.
CREATE TABLE run_erasures (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    house_id uuid NOT NULL,
    source text NOT NULL CHECK (source IN ('session', 'run', 'runtime', 'agent', 'person')),
    value text NOT NULL,
    scopes uuid[],
    at timestamptz NOT NULL
);
CREATE INDEX run_erasures_value ON run_erasures (house_id, value);
CREATE INDEX run_erasures_last ON run_erasures (house_id, id);

-- Until when what a run said is erased, because one of its sources was; NULL if none was where this scope was reached. What
-- is said later is new. The clocks of runtimes may be a little ahead of the one here.
CREATE FUNCTION run_text_erased(house uuid, scope uuid, run uuid, agent uuid, named text, session text) RETURNS timestamptz
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
    SELECT max(x.at) + interval '5 s' FROM run_erasures x
     WHERE x.house_id = house AND x.value IN (run::text, agent::text, named, session)
       AND (x.scopes IS NULL OR scope = ANY (x.scopes))
       AND x.value = CASE x.source WHEN 'session' THEN session WHEN 'run' THEN run::text WHEN 'runtime' THEN named
                                   ELSE agent::text END
$$;

-- Write runs of one agent: each is `{run, events, status, finished_at}`. The first time the run itself must be said in full.
-- An event with a number goes to just that place: one that is there already was sent before, and is passed over; a number
-- too high is refused, so that numbers are dense. One without a number comes next. Answers with one row a run: `refused` is
-- NULL, or why nothing of it was written.
CREATE FUNCTION write_runs(principal uuid, token uuid, house uuid, batch json)
RETURNS TABLE (run_id uuid, refused text, last integer)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    reached uuid[]; writable uuid[]; known uuid[]; gone uuid[];
    item json; said json; one json; r runs; named uuid[]; place integer; hidden timestamptz;
BEGIN
    SELECT coalesce(array_agg(s.id) FILTER (WHERE m.rights & 1 = 1), '{}'), coalesce(array_agg(s.id) FILTER (WHERE m.rights & 2 = 2), '{}')
      INTO reached, writable
      FROM my_rights(principal, token) m JOIN scopes s ON s.id = m.scope_id AND s.house_id = house;
    IF cardinality(reached) + cardinality(writable) = 0 THEN
        RETURN;
    END IF;
    -- Who erases a source waits for those who write, and is seen by those who come after: see `erase_runs`.
    PERFORM pg_advisory_xact_lock_shared(hashtextextended(house::text, 7));
    -- The memories that are spoken of, as far as their existence is the caller's business; locked against an erasure under way.
    known := ARRAY(
        SELECT m.id FROM memories m
         WHERE m.id = ANY (ARRAY(SELECT DISTINCT n.value::uuid FROM json_array_elements(batch) b,
                                        json_array_elements(b.value -> 'events') e, json_array_elements_text(e.value -> 'names') n))
           AND m.parent_id = ANY (reached)
         ORDER BY m.id FOR SHARE);
    gone := ARRAY(SELECT m.id FROM memories m WHERE m.id = ANY (known) AND m.status = 'erased');

    FOR item IN SELECT b.value FROM json_array_elements(batch) b ORDER BY b.value -> 'run' ->> 'id' LOOP
        said := item -> 'run';
        run_id := (said ->> 'id')::uuid; refused := NULL; last := NULL;
        IF said ->> 'scope' IS NOT NULL AND (said ->> 'scope')::uuid = ANY (writable) THEN
            INSERT INTO runs AS n VALUES (
                run_id, house, (said ->> 'scope')::uuid, principal, said ->> 'kind', (said ->> 'parent')::uuid, said ->> 'runtime',
                said ->> 'session', said ->> 'name', 'running', (said ->> 'started_at')::timestamptz, NULL, clock_timestamp(), 0)
            ON CONFLICT (id) DO NOTHING;
        END IF;
        SELECT * INTO r FROM runs n WHERE n.id = run_id AND n.house_id = house AND n.agent_id = principal FOR UPDATE;
        IF r.id IS NULL OR NOT r.scope_id = ANY (writable) THEN
            refused := CASE WHEN (said ->> 'scope')::uuid = ANY (reached) THEN 'denied' ELSE 'not_found' END;
            RETURN NEXT;
            CONTINUE;
        END IF;
        hidden := run_text_erased(house, r.scope_id, r.id, principal, r.runtime, r.session_id);
        IF r.started_at <= hidden AND r.name IS NOT NULL THEN
            UPDATE runs n SET name = NULL WHERE n.id = run_id;
        END IF;
        last := r.events;
        FOR one IN SELECT e.value FROM json_array_elements(item -> 'events') e LOOP
            place := coalesce((one ->> 'number')::integer, last + 1);
            IF place > last + 1 THEN
                PERFORM refuse('invalid_input', 'the events of a run are numbered without holes');
            ELSIF place <= last THEN
                CONTINUE;
            END IF;
            named := ARRAY(SELECT n.value::uuid FROM json_array_elements_text(one -> 'names') n
                            WHERE n.value::uuid = ANY (known) ORDER BY 1);
            INSERT INTO run_events VALUES (run_id, place, one ->> 'kind', (one ->> 'at')::timestamptz, named,
                CASE WHEN NOT named && gone AND ((one ->> 'at')::timestamptz <= hidden) IS NOT TRUE THEN left(one ->> 'body', 1000000) END);
            last := place;
        END LOOP;
        -- What is finished stays so, unless it is a session, which may be taken up again.
        UPDATE runs n SET events = last, heard_at = clock_timestamp(),
               status = CASE WHEN r.status = 'running' OR r.kind = 'session' THEN coalesce(item ->> 'status', r.status) ELSE r.status END,
               finished_at = CASE WHEN r.status = 'running' OR r.kind = 'session'
                                  THEN CASE WHEN item ->> 'status' = 'running' THEN NULL
                                            ELSE coalesce((item ->> 'finished_at')::timestamptz, r.finished_at) END
                                  ELSE r.finished_at END
         WHERE n.id = run_id;
        RETURN NEXT;
    END LOOP;
END $$;

-- Erase the text of runs by their source: by an agent in what it manages, by the operator (no principal) in all of the house.
-- What is held stays. Answers how many texts went, or would go.
CREATE FUNCTION erase_runs(principal uuid, token uuid, house uuid, source text, value text, really boolean) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    managed uuid[]; hit uuid[]; texts bigint;
BEGIN
    IF principal IS NULL THEN
        IF login_kind() IS DISTINCT FROM 'app' THEN
            RETURN 0;
        END IF;
    ELSE
        PERFORM set_config('substrate.principal', principal::text, true), set_config('substrate.token', coalesce(token::text, ''), true);
        managed := managed_scopes();
        PERFORM set_config('substrate.principal', '', true), set_config('substrate.token', '', true);
        managed := ARRAY(SELECT s.id FROM scopes s WHERE s.id = ANY (managed) AND s.house_id = house);
        IF cardinality(managed) = 0 THEN
            RETURN 0;
        END IF;
    END IF;
    IF really THEN
        PERFORM pg_advisory_xact_lock(hashtextextended(house::text, 7));
        INSERT INTO run_erasures (house_id, source, value, scopes, at) VALUES (house, source, value, managed, clock_timestamp());
    END IF;
    hit := ARRAY(
        SELECT r.id FROM runs r
         WHERE r.house_id = house AND (managed IS NULL OR r.scope_id = ANY (managed))
           AND value = CASE source WHEN 'session' THEN r.session_id WHEN 'run' THEN r.id::text WHEN 'runtime' THEN r.runtime
                                   ELSE r.agent_id::text END
           AND NOT scope_held(r.scope_id));
    IF really THEN
        UPDATE runs r SET name = NULL WHERE r.id = ANY (hit) AND r.name IS NOT NULL;
        UPDATE run_events e SET body = NULL WHERE e.run_id = ANY (hit) AND e.body IS NOT NULL;
        GET DIAGNOSTICS texts = ROW_COUNT;
    ELSE
        SELECT count(*) INTO texts FROM run_events e WHERE e.run_id = ANY (hit) AND e.body IS NOT NULL;
    END IF;
    RETURN texts;
END $$;

-- With a memory goes the text of the events that name it.
CREATE FUNCTION erase_run_events() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp SET enable_seqscan = off AS $$
BEGIN
    UPDATE run_events e SET body = NULL
     WHERE e.names @> ARRAY[NEW.id] AND e.names <> '{}' AND e.body IS NOT NULL
       AND NOT (SELECT scope_held(r.scope_id) FROM runs r WHERE r.id = e.run_id);
    RETURN NULL;
END $$;
CREATE TRIGGER erase_run_events AFTER UPDATE ON memories FOR EACH ROW
    WHEN (NEW.status = 'erased' AND OLD.status <> 'erased') EXECUTE FUNCTION erase_run_events();

-- Who is erased as a person takes along what they said in their runs, and what is on its way.
CREATE FUNCTION erase_person_runs() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(NEW.house_id::text, 7));
    INSERT INTO run_erasures (house_id, source, value, scopes, at)
    VALUES (NEW.house_id, 'person', NEW.id::text, NULL, clock_timestamp());
    UPDATE run_events e SET body = NULL
     WHERE e.run_id IN (SELECT r.id FROM runs r WHERE r.agent_id = NEW.id OR r.scope_id = NEW.id) AND e.body IS NOT NULL;
    UPDATE runs r SET name = NULL WHERE (r.agent_id = NEW.id OR r.scope_id = NEW.id) AND r.name IS NOT NULL;
    RETURN NULL;
END $$;
CREATE TRIGGER erase_person_runs AFTER UPDATE ON scopes FOR EACH ROW
    WHEN (NEW.status = 'erased' AND OLD.status <> 'erased') EXECUTE FUNCTION erase_person_runs();

-- For the files of a runtime, which hold local runs: which of these memories were erased, and until when what these runs said.
-- Of memories only what the credentials read; of runs only what the runtime says of its own agents' (`asked` is a list of
-- {run, agent, runtime, session}). The id is that of the memory or run.
CREATE FUNCTION erased_locally(principals uuid[], tokens uuid[], house uuid, memories uuid[], asked json)
RETURNS TABLE (id uuid, until timestamptz)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = substrate, pg_temp SET enable_seqscan = off AS $$
DECLARE
    login text := login_kind();
BEGIN
    RETURN QUERY
    SELECT m.id, NULL::timestamptz FROM memories m
     WHERE m.id = ANY (erased_locally.memories) AND m.status = 'erased' AND m.parent_id = ANY (replica_readable(principals, tokens, house));
    -- A runtime's own login asks for its agents. One that was erased has no rights left, and must be heard of all the same.
    RETURN QUERY
    SELECT a.run, e.until FROM json_to_recordset(asked) AS a (run uuid, agent uuid, runtime text, session text)
     CROSS JOIN LATERAL run_text_erased(house, a.agent, a.run, a.agent, a.runtime, a.session) AS e (until)
     WHERE (login = 'app' OR EXISTS (SELECT FROM login_agents l WHERE l.role = session_user AND l.agent_id = a.agent))
       AND a.agent = ANY (principals) AND e.until IS NOT NULL;
END $$;

-- The last erasure by source in a house, so that a runtime asks no more than this while there is none. For who hosts agents of
-- the house, also those that were erased: these must be heard of, too.
CREATE FUNCTION run_erasures_mark(principals uuid[], tokens uuid[], house uuid) RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
    SELECT max(x.id) FROM run_erasures x
     WHERE x.house_id = house
       AND (login_kind() = 'app' OR EXISTS (SELECT FROM login_agents l WHERE l.role = session_user AND l.agent_id = ANY (principals)))
       AND cardinality(tokens) = cardinality(principals)
$$;

-- Runs have a time after which they are of no use. For the operator. What is held by law stays.
CREATE FUNCTION prune_runs(before timestamptz, most integer) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
DECLARE
    gone bigint;
BEGIN
    IF login_kind() IS DISTINCT FROM 'app' THEN
        PERFORM refuse('denied', 'only the operator prunes runs');
    END IF;
    DELETE FROM runs WHERE id IN (
        SELECT r.id FROM runs r
         WHERE r.started_at < before AND coalesce(r.finished_at, r.heard_at) < before
           AND NOT scope_held(r.scope_id)
         ORDER BY r.started_at LIMIT most);
    GET DIAGNOSTICS gone = ROW_COUNT;
    RETURN gone;
END $$;

-- Row-level security, as everywhere: see 0001_policies.sql.
ALTER TABLE runs ENABLE ROW LEVEL SECURITY;
ALTER TABLE runs FORCE ROW LEVEL SECURITY;
CREATE POLICY owner_all ON runs TO CURRENT_USER USING (true) WITH CHECK (true);
CREATE POLICY readable ON runs FOR SELECT USING (scope_id = ANY ((SELECT visible_scopes())::uuid[]));

ALTER TABLE run_events ENABLE ROW LEVEL SECURITY;
ALTER TABLE run_events FORCE ROW LEVEL SECURITY;
CREATE POLICY owner_all ON run_events TO CURRENT_USER USING (true) WITH CHECK (true);
CREATE POLICY readable ON run_events FOR SELECT USING (EXISTS (SELECT FROM runs r WHERE r.id = run_id));

ALTER TABLE run_erasures ENABLE ROW LEVEL SECURITY;
ALTER TABLE run_erasures FORCE ROW LEVEL SECURITY;
CREATE POLICY owner_all ON run_erasures TO CURRENT_USER USING (true) WITH CHECK (true);
