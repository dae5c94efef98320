-- Checkpoints: what an agent knew at a position, kept in a git repository beside its runtime.

-- An agent writes it into its own scope.
INSERT INTO event_rules VALUES ('CheckpointTaken', 2, 'none');

-- What a process that keeps repositories must know of the agents they are of, and may know without reading anything: is
-- the agent gone, and was anything erased in its scope after the position that the repository has heard of? The trusted
-- application may ask for any agent, a runtime's own login for those bound to it. An agent that is not here has no row.
CREATE FUNCTION checkpoint_news(agents uuid[], heard bigint[])
RETURNS TABLE (agent uuid, gone boolean, erased boolean, through bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = substrate, pg_temp SET enable_seqscan = off AS $$
    SELECT s.id, s.status <> 'active',
           EXISTS (SELECT FROM events e WHERE e.scope_id = s.id AND e.seq > u.heard AND e.type = 'MemoryErased'),
           (SELECT max(e.seq) FROM events e WHERE e.scope_id = s.id)
      FROM unnest(agents, heard) AS u (id, heard)
      JOIN scopes s ON s.id = u.id AND s.kind = 'agent'
     WHERE login_kind() = 'app' OR login_kind() = 'runtime' AND EXISTS (
           SELECT FROM login_agents la WHERE la.role = session_user AND la.agent_id = s.id)
$$;

-- Who is erased as a person takes along what they called their checkpoints. `ScopeErased` names it: see `verify`.
CREATE FUNCTION erase_labels() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = substrate, pg_temp SET enable_seqscan = off AS $$
BEGIN
    UPDATE events o SET body = NULL, salt = NULL
     WHERE o.subject_id = NEW.id AND o.house_id IS NOT DISTINCT FROM NEW.house_id AND o.type = 'CheckpointTaken'
       AND o.body IS NOT NULL;
    RETURN NULL;
END $$;
CREATE TRIGGER erase_labels AFTER UPDATE ON scopes FOR EACH ROW
    WHEN (NEW.status = 'erased' AND OLD.status <> 'erased') EXECUTE FUNCTION erase_labels();
