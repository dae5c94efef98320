-- What the application's role may do: read under row-level security, and call these functions. It writes no table.
-- Run after every upgrade, so that a role that is new, or a function that is new, has just this and no more.
GRANT USAGE ON SCHEMA substrate TO {role};
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA substrate FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA substrate FROM {role};
GRANT SELECT ON scopes, grants, events, memories, links, derivations, proposals, embeddings, recall_signals,
    reminders, inbox, runs, run_events, sessions, interactions, extraction_offers, alembic_version TO {role};
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
    record_signals(uuid, uuid, uuid, uuid[], text[], real[], smallint[], timestamptz[], uuid[]), prune_signals(timestamptz),
    report_runtime(uuid[], uuid[], uuid, text, jsonb), runtime_reports(),
    add_reminder(uuid, uuid, uuid, uuid, text, text, text, text, text, text, bytea, timestamptz, timestamptz, interval, text, text),
    read_reminders(uuid, uuid, uuid, uuid, text[], uuid, integer), cancel_reminder(uuid, uuid, uuid),
    move_reminder(uuid, uuid, uuid, timestamptz, interval),
    claim_reminders(uuid[], uuid[], text[], text, interval, integer, integer),
    renew_reminders(uuid[], uuid[], uuid[], uuid[], interval), finish_reminder(uuid, uuid, uuid, uuid, timestamptz),
    fail_reminder(uuid, uuid, uuid, uuid, text, interval, integer, timestamptz), next_reminder(uuid[], uuid[], text[]),
    put_in_inbox(uuid, uuid, uuid, uuid), read_inbox(uuid, uuid, integer), mark_inbox(uuid, uuid, uuid[]),
    erase_reminders(uuid, uuid, uuid, text, text, boolean), prune_reminders(timestamptz, integer), reminder_counts(),
    begin_upkeep(text, interval), prune_signals(timestamptz, integer), prunable(text, timestamptz),
    write_runs(uuid, uuid, uuid, json), erase_runs(uuid, uuid, uuid, text, text, boolean),
    erased_locally(uuid[], uuid[], uuid, uuid[], json), run_erasures_mark(uuid[], uuid[], uuid),
    prune_runs(timestamptz, integer),
    open_session(uuid, uuid, uuid, text), leave_session(uuid, uuid, uuid, text, boolean),
    add_turns(uuid, uuid, uuid, text, integer, integer, uuid[], text[], text[], text[], text[], text, text),
    leave_idle_sessions(uuid, uuid, interval, integer), begin_archive(uuid, uuid, uuid, text),
    finish_archive(uuid, uuid, uuid, text, integer), claim_offers(uuid, uuid, integer, interval),
    end_claim(uuid, uuid, uuid, uuid, boolean), erase_interactions(uuid, uuid, uuid, text, text, boolean),
    prune_interactions(timestamptz, boolean, integer),
    checkpoint_news(uuid[], bigint[]),
    import_begin(uuid), import_rows(uuid, text, json), import_end(uuid, bigint), houses(), house_agents(uuid)
    TO {role};
