-- The rights of a role that serves requests: rows of its tenant, and nothing else. It cannot create, alter or drop tables.
--
-- Run once as the owner of the tables, after they exist (`tidegate doctor --store postgresql://OWNER@HOST/DATABASE`), and
-- again after an upgrade. Then, for each worker or tenant:
--
--     create role worker login password '...' in role tidegate_app;
--     insert into tidegate_tenants (role, tenant) values ('worker', 'red');   -- only if tenants are kept apart
--
-- Roles without a row in tidegate_tenants share one tenant. The owner and superusers are not restricted by row-level
-- security: no gateway or agent should connect as one of them.

do $$ begin create role tidegate_app nologin; exception when duplicate_object then null; end $$;

revoke create on schema public from public;
do $$ begin execute format('revoke temporary on database %I from public', current_database()); end $$;
do $$ begin execute format('grant connect on database %I to tidegate_app', current_database()); end $$;
grant usage on schema public to tidegate_app;

grant select on tidegate_migrations, tidegate_tenants to tidegate_app;
grant select, insert, update, delete on
    tidegate_sessions, tidegate_records, tidegate_files, tidegate_sources, tidegate_passages to tidegate_app;
revoke all on function tidegate_tenant() from public;
grant execute on function tidegate_tenant() to tidegate_app;
revoke all on function tidegate_count_passages, tidegate_find_passages, tidegate_find_recent_passages from public;
grant execute on function tidegate_count_passages, tidegate_find_passages, tidegate_find_recent_passages to tidegate_app;
