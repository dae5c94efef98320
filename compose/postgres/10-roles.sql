-- Run once by the image, as the superuser, on an empty data folder.
-- The owner migrates; the application may only do what the owner's functions and policies allow it.
\set ON_ERROR_STOP on
\getenv owner_password SUBSTRATE_OWNER_PASSWORD
\getenv app_password SUBSTRATE_APP_PASSWORD

CREATE ROLE substrate_owner LOGIN CREATEROLE NOSUPERUSER NOCREATEDB NOBYPASSRLS PASSWORD :'owner_password';
CREATE ROLE substrate_app LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS PASSWORD :'app_password';

CREATE DATABASE substrate OWNER substrate_owner ENCODING 'UTF8' LOCALE 'C.UTF-8' TEMPLATE template0;
REVOKE ALL ON DATABASE substrate FROM PUBLIC;
GRANT CONNECT ON DATABASE substrate TO substrate_app;

-- For `substrate erase --now`, which also runs through the write-ahead log.
GRANT pg_checkpoint, pg_monitor TO substrate_owner;
\connect substrate
GRANT EXECUTE ON FUNCTION pg_switch_wal() TO substrate_owner;
