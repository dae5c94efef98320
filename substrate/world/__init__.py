"""The shared truth, in Postgres: scopes, records, stream, chain, provenance, erasure."""
