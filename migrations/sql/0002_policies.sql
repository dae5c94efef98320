ALTER TABLE memories ENABLE ROW LEVEL SECURITY;
ALTER TABLE memories FORCE ROW LEVEL SECURITY;
CREATE POLICY owner_all ON memories TO CURRENT_USER USING (true) WITH CHECK (true);
CREATE POLICY readable ON memories FOR SELECT USING (parent_id = ANY ((SELECT visible_scopes())::uuid[]));

-- A link is visible when both its ends are: the inner queries stand under the policy of `memories`.
ALTER TABLE links ENABLE ROW LEVEL SECURITY;
ALTER TABLE links FORCE ROW LEVEL SECURITY;
CREATE POLICY owner_all ON links TO CURRENT_USER USING (true) WITH CHECK (true);
CREATE POLICY readable ON links FOR SELECT USING (
    EXISTS (SELECT FROM memories m WHERE m.id = from_id) AND EXISTS (SELECT FROM memories m WHERE m.id = to_id));

ALTER TABLE derivations ENABLE ROW LEVEL SECURITY;
ALTER TABLE derivations FORCE ROW LEVEL SECURITY;
CREATE POLICY owner_all ON derivations TO CURRENT_USER USING (true) WITH CHECK (true);
CREATE POLICY readable ON derivations FOR SELECT USING (EXISTS (SELECT FROM memories m WHERE m.id = memory_id));

ALTER TABLE proposals ENABLE ROW LEVEL SECURITY;
ALTER TABLE proposals FORCE ROW LEVEL SECURITY;
CREATE POLICY owner_all ON proposals TO CURRENT_USER USING (true) WITH CHECK (true);
CREATE POLICY readable ON proposals FOR SELECT USING (
    proposed_by = nullif(current_setting('substrate.principal', true), '')::uuid
        AND proposed_by = ANY ((SELECT visible_scopes())::uuid[])
    OR to_scope = ANY ((SELECT scopes_with(4))::uuid[]));

ALTER TABLE budgets ENABLE ROW LEVEL SECURITY;
ALTER TABLE budgets FORCE ROW LEVEL SECURITY;
CREATE POLICY owner_all ON budgets TO CURRENT_USER USING (true) WITH CHECK (true);
