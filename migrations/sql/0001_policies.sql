-- Row-level security: a query that forgets its filter returns nothing. FORCE, so that the owner has no way around it but
-- the policy that names it, which the SECURITY DEFINER functions need.

ALTER TABLE scopes ENABLE ROW LEVEL SECURITY;
ALTER TABLE scopes FORCE ROW LEVEL SECURITY;
CREATE POLICY owner_all ON scopes TO CURRENT_USER USING (true) WITH CHECK (true);
-- Agents of a scope one reads are known to each other; rooms one may not read are not even named.
CREATE POLICY readable ON scopes FOR SELECT USING (
    id = ANY ((SELECT visible_scopes())::uuid[])
    OR (kind = 'agent' AND parent_id = ANY ((SELECT visible_scopes())::uuid[]))
    OR id = ANY ((SELECT managed_scopes())::uuid[]));

ALTER TABLE grants ENABLE ROW LEVEL SECURITY;
ALTER TABLE grants FORCE ROW LEVEL SECURITY;
CREATE POLICY owner_all ON grants TO CURRENT_USER USING (true) WITH CHECK (true);
CREATE POLICY readable ON grants FOR SELECT USING (
    scope_id = ANY ((SELECT visible_scopes())::uuid[]) OR scope_id = ANY ((SELECT managed_scopes())::uuid[]));

ALTER TABLE tokens ENABLE ROW LEVEL SECURITY;
ALTER TABLE tokens FORCE ROW LEVEL SECURITY;
CREATE POLICY owner_all ON tokens TO CURRENT_USER USING (true) WITH CHECK (true);
CREATE POLICY readable ON tokens FOR SELECT USING (
    principal_id = nullif(current_setting('substrate.principal', true), '')::uuid
        AND principal_id = ANY ((SELECT visible_scopes())::uuid[])
    OR principal_id = ANY ((SELECT managed_scopes())::uuid[]));

ALTER TABLE events ENABLE ROW LEVEL SECURITY;
ALTER TABLE events FORCE ROW LEVEL SECURITY;
CREATE POLICY owner_all ON events TO CURRENT_USER USING (true) WITH CHECK (true);
CREATE POLICY readable ON events FOR SELECT USING (scope_id = ANY ((SELECT visible_scopes())::uuid[]));

ALTER TABLE placements ENABLE ROW LEVEL SECURITY;
ALTER TABLE placements FORCE ROW LEVEL SECURITY;
CREATE POLICY owner_all ON placements TO CURRENT_USER USING (true) WITH CHECK (true);
ALTER TABLE stream_head ENABLE ROW LEVEL SECURITY;
ALTER TABLE stream_head FORCE ROW LEVEL SECURITY;
CREATE POLICY owner_all ON stream_head TO CURRENT_USER USING (true) WITH CHECK (true);
