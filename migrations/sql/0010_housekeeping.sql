-- Keeping house: pruning in steps that hold no lock for long, and a slot, so that of many runtimes one does it.

-- When each kind of upkeep of the whole database was last begun.
CREATE TABLE upkeep (
    name text PRIMARY KEY,
    begun_at timestamptz NOT NULL
);

-- Whether it is the caller's turn: true for one of all who ask within `every`. For the operator.
CREATE FUNCTION begin_upkeep(named text, every interval) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
BEGIN
    IF login_kind() IS DISTINCT FROM 'app' THEN
        PERFORM refuse('denied', 'only the operator keeps house');
    END IF;
    INSERT INTO upkeep AS u VALUES (named, clock_timestamp())
    ON CONFLICT (name) DO UPDATE SET begun_at = clock_timestamp() WHERE u.begun_at <= clock_timestamp() - every;
    RETURN FOUND;
END $$;

-- As `prune_signals(before)`, and no more than so many: the caller comes again.
CREATE FUNCTION prune_signals(before timestamptz, most integer) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp SET enable_seqscan = off AS $$
DECLARE
    gone bigint;
BEGIN
    IF login_kind() IS DISTINCT FROM 'app' THEN
        PERFORM refuse('denied', 'only the operator prunes signals');
    END IF;
    DELETE FROM recall_signals s WHERE s.id IN (
        SELECT o.id FROM recall_signals o WHERE o.recalled_at < before ORDER BY o.recalled_at LIMIT most FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS gone = ROW_COUNT;
    RETURN gone;
END $$;

-- How many there are to prune. For the operator.
CREATE FUNCTION prunable(what text, before timestamptz) RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = substrate, pg_temp AS $$
BEGIN
    IF login_kind() IS DISTINCT FROM 'app' THEN
        PERFORM refuse('denied', 'only the operator keeps house');
    END IF;
    RETURN CASE what
        WHEN 'signals' THEN (SELECT count(*) FROM recall_signals s WHERE s.recalled_at < before)
        -- Of conversations and runs what lies under a legal hold stays, and is counted here all the same.
        WHEN 'interactions' THEN (
            SELECT count(*) FROM interactions i JOIN sessions s ON s.scope_id = i.scope_id AND s.id = i.session_id
             WHERE i.created_at < before AND i.turn <= s.offered_through)
        WHEN 'runs' THEN (
            SELECT count(*) FROM runs r WHERE r.started_at < before AND coalesce(r.finished_at, r.heard_at) < before)
        WHEN 'reminders' THEN (
            SELECT count(*) FROM reminders r WHERE r.next_at IS NULL AND r.updated_at < before
               AND NOT EXISTS (SELECT FROM inbox i WHERE i.reminder_id = r.id AND i.read_at IS NULL AND r.erased_at IS NULL))
        END;
END $$;

ALTER TABLE upkeep ENABLE ROW LEVEL SECURITY;
ALTER TABLE upkeep FORCE ROW LEVEL SECURITY;
CREATE POLICY owner_all ON upkeep TO CURRENT_USER USING (true) WITH CHECK (true);
