-- What the application's role may do: read under row-level security, and call these functions. It writes no table.
-- Run after every upgrade, so that a role that is new, or a function that is new, has just this and no more.
GRANT USAGE ON SCHEMA substrate TO {role};
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA substrate FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA substrate FROM {role};
GRANT SELECT ON scopes, grants, events, memories, links, derivations, proposals, alembic_version TO {role};
GRANT SELECT (id, house_id, principal_id, rights, issued_at, expires_at, revoked_at) ON tokens TO {role};
GRANT EXECUTE ON FUNCTION
    login_kind(), credential_mask(uuid, uuid), my_rights(uuid, uuid, bigint), scopes_with(integer), visible_scopes(),
    managed_scopes(), manages(uuid, uuid, uuid), govern(json), authenticate(uuid, bytea), append(json),
    plain_rights(uuid, uuid),
    position_at(uuid, uuid, uuid, timestamptz), stream_mark(uuid, uuid, uuid, bigint),
    read_stream(uuid, uuid, uuid, bigint, bigint), may_audit(uuid, uuid, uuid),
    read_chain(uuid, uuid, uuid, bigint, integer), read_records(uuid, uuid, uuid, text),
    export_events(uuid, uuid, uuid, bigint, integer),
    read_proposals(uuid, uuid, text, uuid), rights_at(uuid, uuid, uuid, uuid, bigint),
    retraction_reach(uuid, uuid, uuid, text, text), erasure_targets(uuid, uuid, uuid, text, text[]), retention_due(uuid, integer),
    import_begin(uuid), import_rows(uuid, text, json), import_end(uuid, bigint), houses(), house_agents(uuid)
    TO {role};
