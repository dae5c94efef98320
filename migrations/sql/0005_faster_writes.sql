-- A batch of plain memories, by columns.

-- What `learn` does, at half its cost: the fields come as arrays in binary, one element a memory, where `learn` takes JSON
-- with JSON inside. Items come sorted by house, and `places[i]` says which of `houses` item i belongs to. `learn` stays
-- for runtimes that know no other; both hold to the same rules, which are written there.
--
-- Returns the seq of each house's last new event, and then the microseconds of each: those before it lie one apart, so that
-- the caller knows them all.
--
-- The salts come from the caller, who has the text anyway. The hashes are computed here.
CREATE FUNCTION learn_many(houses uuid[], rights bigint[], places integer[], schema_version smallint, event_ids uuid[],
                           scopes uuid[], subjects uuid[], actors uuid[], runtimes text[], sessions text[], runs text[],
                           causations uuid[], correlations uuid[], datas text[], bodies text[],
                           occurred timestamptz[], salts bytea[])
RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    fixed bytea[]; commitments bytea[];  -- what of each hash can be computed before the head is locked
    found_houses uuid[]; changed boolean; now_at bigint;
    seqs bigint[]; times bigint[]; hashes bytea[];  -- of each head: first as found, in the end as left
    seqs_before bigint[]; times_before bigint[]; previous bytea[]; chain bytea[];
    place integer := 0; seq bigint; micros bigint; hash bytea;
BEGIN
    -- A new memory is its event's fields, by name. The columns are unnested side by side in the select list: as functions
    -- in FROM, each would be kept in a table of its own first.
    INSERT INTO memories (id, house_id, parent_id, key, kind, title, description, content, tags, concept_tags, category,
                          tier, confidence, valid_from, valid_to, point_in_time, expires_at, status,
                          taught_by, held, reinforcements, version, content_version, learned_at, updated_at)
    SELECT e.subject_id, houses[e.place], e.scope_id, b ->> 'key', d ->> 'kind', b ->> 'title', b ->> 'description',
           b ->> 'content',
           CASE WHEN b ? 'tags' THEN ARRAY(SELECT jsonb_array_elements_text(b -> 'tags')) ELSE '{}' END,
           CASE WHEN b ? 'concept_tags' THEN ARRAY(SELECT jsonb_array_elements_text(b -> 'concept_tags')) ELSE '{}' END,
           (d ->> 'category')::category, (d ->> 'tier')::tier, (d -> 'confidence')::double precision,
           (d ->> 'valid_from')::timestamptz, (d ->> 'valid_to')::timestamptz, (d ->> 'point_in_time')::timestamptz,
           (d ->> 'expires_at')::timestamptz, 'active', e.actor_id, false, 0, 1, 1, e.occurred_at, e.occurred_at
      FROM (SELECT unnest(places) AS place, unnest(subjects) AS subject_id, unnest(scopes) AS scope_id,
                   unnest(actors) AS actor_id, unnest(occurred) AS occurred_at,
                   unnest(datas)::jsonb AS d, unnest(bodies)::jsonb AS b) e;

    SELECT array_agg(fixed_part(houses[e.place], e.event_id, e.scope_id, e.subject_id, 1, 'MemoryLearned', schema_version,
                                e.actor_id, e.runtime, e.session_id, e.run_id, e.causation_id, e.correlation_id, e.data,
                                e.occurred_at)),
           array_agg(sha256(e.salt || convert_to(e.body, 'UTF8')))
      INTO fixed, commitments
      FROM (SELECT unnest(places) AS place, unnest(event_ids) AS event_id, unnest(scopes) AS scope_id,
                   unnest(subjects) AS subject_id, unnest(actors) AS actor_id, unnest(runtimes) AS runtime,
                   unnest(sessions) AS session_id, unnest(runs) AS run_id, unnest(causations) AS causation_id,
                   unnest(correlations) AS correlation_id, unnest(datas) AS data, unnest(bodies) AS body,
                   unnest(occurred) AS occurred_at, unnest(salts) AS salt) e;

    -- From here until the commit the heads are locked, as in `chain_events`: no work below that could be done above.
    -- A right that changed since it was looked up has changed the version, and the batch is refused.
    SELECT array_agg(h.house_id), array_agg(h.seq), array_agg(microseconds(h.recorded_at)), array_agg(h.hash),
           bool_or(h.rights_version IS DISTINCT FROM rights[array_position(houses, h.house_id)])
      INTO found_houses, seqs, times, hashes, changed
      FROM (SELECT * FROM stream_head WHERE house_id = ANY (houses) ORDER BY house_id FOR UPDATE) h;
    IF changed OR found_houses IS DISTINCT FROM houses THEN
        RAISE EXCEPTION 'rights changed while the batch was under way' USING ERRCODE = 'SB001';
    END IF;

    now_at := microseconds(clock_timestamp());
    FOR i IN 1 .. cardinality(event_ids) LOOP
        IF places[i] <> place THEN
            IF place > 0 THEN
                seqs[place] := seq; times[place] := micros; hashes[place] := hash;
            END IF;
            place := places[i]; seq := seqs[place]; hash := hashes[place];
            micros := greatest(now_at, times[place] + 1) - 1;
            -- Less what stands before it in the batch: so that item i is at this plus i.
            seqs_before[place] := seq - i + 1; times_before[place] := micros - i + 1;
        END IF;
        seq := seq + 1; micros := micros + 1;
        previous[i] := hash;
        hash := sha256(hash || fixed[i] || int8send(seq) || int8send(micros) || commitments[i]);
        chain[i] := hash;
    END LOOP;
    seqs[place] := seq; times[place] := micros; hashes[place] := hash;

    INSERT INTO events (house_id, seq, event_id, scope_id, subject_id, version, type, schema_version, actor_id, runtime,
                        session_id, run_id, causation_id, correlation_id, data, body, salt, commitment,
                        occurred_at, recorded_at, prev_hash, hash)
    SELECT houses[e.place], seqs_before[e.place] + e.i, e.event_id, e.scope_id, e.subject_id, 1, 'MemoryLearned',
           schema_version, e.actor_id, e.runtime, e.session_id, e.run_id, e.causation_id, e.correlation_id, e.data, e.body,
           e.salt, e.commitment, e.occurred_at, moment(times_before[e.place] + e.i), e.prev_hash, e.hash
      FROM (SELECT generate_series(1, cardinality(event_ids)) AS i, unnest(places) AS place,
                   unnest(event_ids) AS event_id, unnest(scopes) AS scope_id, unnest(subjects) AS subject_id,
                   unnest(actors) AS actor_id, unnest(runtimes) AS runtime, unnest(sessions) AS session_id,
                   unnest(runs) AS run_id, unnest(causations) AS causation_id, unnest(correlations) AS correlation_id,
                   unnest(datas) AS data, unnest(bodies) AS body, unnest(occurred) AS occurred_at, unnest(salts) AS salt,
                   unnest(commitments) AS commitment, unnest(previous) AS prev_hash, unnest(chain) AS hash) e;

    UPDATE stream_head h SET seq = u.seq, hash = u.hash, recorded_at = moment(u.micros)
      FROM unnest(houses, seqs, hashes, times) AS u (house_id, seq, hash, micros)
     WHERE h.house_id = u.house_id;
    RETURN seqs || times;
END $$;
