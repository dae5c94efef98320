-- Imports: what was brought in from elsewhere is named by an event in the scope it went to.

INSERT INTO event_rules VALUES ('SourceImported', 2, 'none');

-- Who is erased as a person takes along what they called their checkpoints, and the names of the files they brought.
-- `ScopeErased` names it: see `verify`.
CREATE OR REPLACE FUNCTION erase_labels() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp SET enable_seqscan = off AS $$
BEGIN
    UPDATE events o SET body = NULL, salt = NULL
     WHERE o.subject_id = NEW.id AND o.house_id IS NOT DISTINCT FROM NEW.house_id
       AND o.type IN ('CheckpointTaken', 'SourceImported') AND o.body IS NOT NULL;
    RETURN NULL;
END $$;
