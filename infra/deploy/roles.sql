-- The roles of the services in PostgreSQL, each with the least rights that it works
-- with. Run it in the services' database before they first start, as a superuser; to
-- run it again changes the passwords and nothing else.
--
--   psql "$DATABASE_URL" -v secrets="$PWD/secrets" -f infra/deploy/roles.sql
--
-- The passwords are those that infra/deploy/secrets made. They are read here, and not
-- given as arguments, which every user of the machine can see.
\set ON_ERROR_STOP on
\if :{?secrets}
\else
  \set secrets /run/secrets
\endif
\set core `cat :'secrets'/database_password_core`
\set extension `cat :'secrets'/database_password_extension`
\set projector `cat :'secrets'/database_password_projector`
\set anchorer `cat :'secrets'/database_password_anchorer`
-- An empty text would take a role's password away.
SELECT '' IN (:'core', :'extension', :'projector', :'anchorer') AS missing \gset
\if :missing
  DO $$ BEGIN RAISE 'a password is missing: what folder has the secrets?'; END $$;
\endif

SELECT format('CREATE ROLE %I LOGIN', role)
FROM unnest(ARRAY['ledger_core', 'ledger_extension', 'ledger_projector', 'ledger_anchorer']) role
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role) \gexec
ALTER ROLE ledger_core PASSWORD :'core';
ALTER ROLE ledger_extension PASSWORD :'extension';
ALTER ROLE ledger_projector PASSWORD :'projector';
ALTER ROLE ledger_anchorer PASSWORD :'anchorer';

REVOKE ALL ON DATABASE :"DBNAME" FROM PUBLIC;
REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT CONNECT ON DATABASE :"DBNAME" TO ledger_core, ledger_extension;
-- The projector makes the read models' schema, and a second one for each rebuild; the
-- anchorer makes its own.
GRANT CONNECT, CREATE ON DATABASE :"DBNAME" TO ledger_projector, ledger_anchorer;
-- The others read what the projector makes, whenever it makes it.
ALTER DEFAULT PRIVILEGES FOR ROLE ledger_projector
  GRANT USAGE ON SCHEMAS TO ledger_core, ledger_extension, ledger_anchorer;
ALTER DEFAULT PRIVILEGES FOR ROLE ledger_projector
  GRANT SELECT ON TABLES TO ledger_core, ledger_extension, ledger_anchorer;
