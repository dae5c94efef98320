-- A signal has an id of its own, given by who recalled: to send it again, because the answer was lost, writes nothing more.
-- Signals of before, and of runtimes that are a release behind, have none.
ALTER TABLE recall_signals ADD signal_id uuid;
CREATE UNIQUE INDEX recall_signals_once ON recall_signals (signal_id);

-- As before; and what is there already is not written again. Without `signal_ids` it is the function it was.
DROP FUNCTION record_signals(uuid, uuid, uuid, uuid[], text[], real[], smallint[], timestamptz[]);
CREATE FUNCTION record_signals(principal uuid, token uuid, house uuid, ids uuid[], queries text[], scores real[],
                               places smallint[], times timestamptz[], signal_ids uuid[] DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp SET enable_seqscan = off AS $$
DECLARE
    visible uuid[] := replica_readable(ARRAY[principal], ARRAY[token], house);
    written bigint;
BEGIN
    INSERT INTO recall_signals (house_id, principal_id, memory_id, query, score, place, recalled_at, signal_id)
    SELECT house, principal, m.id, u.query, u.score, u.place, u.at, u.signal_id
      FROM unnest(ids, queries, scores, places, times, signal_ids) AS u (id, query, score, place, at, signal_id)
      JOIN memories m ON m.id = u.id AND m.parent_id = ANY (visible) AND m.status <> 'erased'
       FOR SHARE OF m
    ON CONFLICT (signal_id) DO NOTHING;
    GET DIAGNOSTICS written = ROW_COUNT;
    RETURN written;
END $$;
