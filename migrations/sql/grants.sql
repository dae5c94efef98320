-- What the application's role may do: read under row-level security, and call these functions. It writes no table.
-- Run after every upgrade, so that a role that is new, or a function that is new, has just this and no more.
GRANT USAGE ON SCHEMA substrate TO {role};
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA substrate FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA substrate FROM {role};
GRANT SELECT ON scopes, grants, events, memories, links, derivations, proposals, embeddings, recall_signals,
    alembic_version TO {role};
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
    replica_scopes(uuid[], uuid[], uuid), replica_readable(uuid[], uuid[], uuid), replica_mark(uuid[], uuid[], uuid, bigint),
    replica_events(uuid[], uuid[], uuid, uuid[], bigint, bigint, integer),
    replica_subjects(uuid[], uuid[], uuid, uuid[], bigint),
    replica_digests(uuid[], uuid[], uuid), replica_checks(uuid[], uuid[], uuid, uuid, uuid, integer),
    read_embeddings(uuid[], uuid[], uuid, text, uuid[]),
    store_embeddings(uuid[], uuid[], uuid, text, uuid[], integer[], bytea[]), embedding_progress(uuid[], uuid[], uuid, text),
    record_signals(uuid, uuid, uuid, uuid[], text[], real[], smallint[], timestamptz[]), prune_signals(timestamptz),
    report_runtime(uuid[], uuid[], uuid, text, jsonb), runtime_reports(),
    import_begin(uuid), import_rows(uuid, text, json), import_end(uuid, bigint), houses(), house_agents(uuid)
    TO {role};
