"""The tables of the PostgreSQL store, as versioned migrations.

Tenants are roles of the database. `tidegate_tenants` says which tenant a role belongs to; a role without a row belongs
to the tenant '', which all such roles share. Row-level security keeps the tenants apart for every role but the owner of
the tables and superusers, and our statements name the tenant as well. A pooler gives each role connections of its own,
so no setting of a connection is needed, which a pooler in transaction mode would not keep. The owner of the tables can
act for a tenant with the setting `tidegate.tenant`; for every other role that setting does nothing.

Workers go on while a migration runs, and workers of the version before may start after it. So a migration adds: columns
with a default, tables, functions. What no version uses any more is removed by a later release. A migration that older
versions cannot work with is named in `BREAKING`, and then they refuse to start.
"""

import random
import time
from collections.abc import Callable, Sequence

from psycopg.errors import LockNotAvailable

from tidegate.store.errors import DamagedData
from tidegate.store.postgres.connection import Link

MIGRATION_LOCK = 0x7469646567617465
"""The number of our advisory lock in the database."""


def create_tables(link: Link) -> None:
    link.execute(
        "create table tidegate_sessions ("
        " id bigint generated always as identity primary key, name bytea not null unique,"
        " head bigint not null check (head >= 0), size bigint not null,"
        " created timestamptz not null, used timestamptz not null)"
    )
    # The database itself ensures that a number is used once, and that no record outlives its session.
    link.execute(
        "create table tidegate_records ("
        " session bigint not null references tidegate_sessions on delete cascade,"
        " seq bigint not null check (seq > 0), data bytea not null, primary key (session, seq))"
    )


def separate_tenants(link: Link) -> None:
    # Read by every role, so that its function can be; a role sees its own row only.
    link.execute("create table tidegate_tenants (role name primary key, tenant text not null check (tenant <> ''))")
    # `begin atomic` binds the table now: a temporary table of the same name cannot take its place.
    link.execute(
        "create function tidegate_tenant() returns text language sql stable begin atomic"
        " select coalesce((select tenant from tidegate_tenants where role = current_user), ''); end"
    )
    link.execute("alter table tidegate_sessions add column tenant text not null default ''")
    link.execute("alter table tidegate_sessions drop constraint tidegate_sessions_name_key")
    link.execute("alter table tidegate_sessions add constraint tidegate_sessions_name_key unique (tenant, name)")
    link.execute("alter table tidegate_tenants enable row level security")
    link.execute("create policy own_role on tidegate_tenants using (role = current_user)")
    _separate_rows(link, "tidegate_sessions")
    # The first append inserts a session and its records in one statement, in which a policy cannot see the session. So
    # records name their tenant, and the reference makes sure that it is the session's.
    link.execute("alter table tidegate_sessions add constraint tidegate_sessions_id_tenant unique (id, tenant)")
    link.execute(
        "alter table tidegate_records add column tenant text not null default '',"
        " drop constraint tidegate_records_session_fkey,"
        " add constraint tidegate_records_session_fkey foreign key (session, tenant)"
        " references tidegate_sessions (id, tenant) on delete cascade"
    )
    _separate_rows(link, "tidegate_records")


def create_files(link: Link) -> None:
    """The shared files: notes, spending, learned windows, marks and files of sessions. A file is its parts in order."""
    link.execute(
        "create table tidegate_files ("
        " tenant text not null, folder bytea not null, name bytea not null, part integer not null, data bytea not null,"
        " changed timestamptz not null, primary key (tenant, folder, name, part))"
    )
    _separate_rows(link, "tidegate_files")


def create_search(link: Link) -> None:
    link.execute(
        "create table tidegate_sources ("
        " id bigint generated always as identity primary key, tenant text not null, kind text not null,"
        " name bytea not null, hash bytea not null, seen text not null, head bigint not null,"
        " unique (tenant, kind, name))"
    )
    link.execute(
        "create table tidegate_passages ("
        " id bigint generated always as identity primary key,"
        " source bigint not null references tidegate_sources on delete cascade,"
        " place bigint not null, body bytea not null, words tsvector not null)"
    )
    link.execute("create index tidegate_passages_by_source on tidegate_passages (source)")
    link.execute("create index tidegate_passages_by_word on tidegate_passages using gin (words)")
    _separate_rows(link, "tidegate_sources")
    link.execute("alter table tidegate_passages enable row level security")
    link.execute(
        "create policy own_tenant on tidegate_passages using (exists ("
        "select from tidegate_sources s where s.id = source and s.tenant = (select tidegate_tenant())))"
    )


def search_with_index(link: Link) -> None:
    """Let roles under row-level security use the index of words.

    A policy is checked before any condition that is not leakproof, and `@@` is not, so these roles read all rows. The
    functions run with the rights of the owner instead, and return only rows of the tenant of the role that logged in.
    """
    # `set role` to the group of the workers must not lead out of the tenant. The session's role cannot be changed.
    link.execute("alter policy own_role on tidegate_tenants using (role in (current_user, session_user))")
    link.execute(
        "create or replace function tidegate_tenant() returns text language sql stable begin atomic"
        " select coalesce((select tenant from tidegate_tenants where role = current_user),"
        f" {_LOGIN_TENANT}); end"
    )
    for function in (_COUNT_PASSAGES, _FIND_PASSAGES, _FIND_RECENT_PASSAGES):
        link.execute(function)
    readers = link.execute(_READERS_OF_PASSAGES).fetchall()
    for name in ("tidegate_count_passages", "tidegate_find_passages", "tidegate_find_recent_passages"):
        link.execute(f"revoke all on function {name} from public")
        for (reader,) in readers:
            link.execute(f"grant execute on function {name} to {reader}")


_LOGIN_TENANT = "coalesce((select tenant from tidegate_tenants where role = session_user), '')"
# `begin atomic` binds the tables, and the settings of the function are those of its call only: nothing that a caller
# sets, such as its search path, changes what these functions read. With sequential scans, a limit could make the
# planner read rows in their order until enough match.
_AS_OWNER = "language sql stable security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off"
_OF_TENANT = f"from tidegate_passages p join tidegate_sources s on s.id = p.source where s.tenant = {_LOGIN_TENANT}"
_COUNT_PASSAGES = f"""
create function tidegate_count_passages(queries tsquery[], most integer) returns setof bigint {_AS_OWNER} begin atomic
select (select count(*) from (select {_OF_TENANT} and p.words @@ query limit most) found)
from unnest(queries) with ordinality as given (query, nth) order by nth;
end
"""
_RANKED = """
select found.id, found.source, found.place, found.body,
    (select sum(ts_rank(found.words, query, 1) * weight)
     from unnest(queries, weights) as given (query, weight)) as score
from ({found}) found order by score desc, found.id desc limit most;
end
"""
_FOUND_COLUMNS = "returns table (id bigint, source bigint, place bigint, body bytea, score float8)"
_FIND_PASSAGES = f"""
create function tidegate_find_passages(
    match tsquery, queries tsquery[], weights float8[], wanted text, scanned integer, most integer)
{_FOUND_COLUMNS} {_AS_OWNER} begin atomic
""" + _RANKED.format(
    found=f"select p.* {_OF_TENANT} and p.words @@ match and (wanted = '' or s.kind = wanted) limit scanned"
)
# `is true` keeps the planner from the index of words, which would first find every passage that has a common word.
_FIND_RECENT_PASSAGES = f"""
create function tidegate_find_recent_passages(
    match tsquery, queries tsquery[], weights float8[], wanted text, reach bigint, scanned integer, most integer)
{_FOUND_COLUMNS} {_AS_OWNER} begin atomic
""" + _RANKED.format(
    found=f"select p.* {_OF_TENANT} and (p.words @@ match) is true and (wanted = '' or s.kind = wanted)"
    " and p.id > (select max(newest.id) from tidegate_passages newest) - reach order by p.id desc limit scanned"
)
_READERS_OF_PASSAGES = """
select case grantee when 0 then 'public' else quote_ident(pg_get_userbyid(grantee)) end
from pg_class, aclexplode(relacl)
where pg_class.oid = 'tidegate_passages'::regclass and privilege_type = 'SELECT' and grantee <> relowner
"""


def let_owner_act_for_tenants(link: Link) -> None:
    # The setting is compared first: for a worker, this adds one comparison to each statement.
    link.execute(
        "create or replace function tidegate_tenant() returns text language sql stable begin atomic"
        " select case when coalesce(current_setting('tidegate.tenant', true), '') <> '' and pg_has_role(session_user,"
        " (select relowner from pg_class where oid = 'tidegate_sessions'::regclass), 'member')"
        " then current_setting('tidegate.tenant', true)"
        f" else coalesce((select tenant from tidegate_tenants where role = current_user), {_LOGIN_TENANT}) end; end"
    )
    link.execute("alter table tidegate_migrations add column breaking boolean not null default true")


def pack_passages(link: Link) -> None:
    """Let a row hold many passages of one source: the texts compress well together, and a word that they share is
    stored once. The positions of a word are then the numbers of the passages that have it.
    """
    link.execute("alter table tidegate_passages add column places bigint[], add column bodies bytea[]")
    # Each search reads the list of what is not yet sorted into the index, and its pages stay in the file.
    link.execute("alter index tidegate_passages_by_word set (gin_pending_list_limit = 256)")
    for function in (_MATCH_PASSAGES, _COUNT_PACKED, _FIND_PACKED, _FIND_RECENT_PACKED):
        link.execute(function)


# The words of the query that a passage of a packed row has are matched as the words of a passage are; the order of
# words is checked by the caller. Words are letters and digits, so quotation marks and operators are those of the query.
_MATCH_PASSAGES = r"""
create function tidegate_match_passages(
    words tsvector, places bigint[], bodies bytea[], match tsquery, queries tsquery[], weights float8[])
returns table (place bigint, body bytea, score float8) language sql stable begin atomic
with wanted as (
    select distinct part[1] as word, part[2] is not null as is_prefix
    from regexp_matches(match::text || ' ' || array_to_string(queries, ' '), '''([^'']+)''(:\*)?', 'g') as part),
held as (
    select nth, array_to_tsvector(array_agg(distinct lexeme)) as present
    from unnest(words) as entry (lexeme, positions, classes)
    join wanted on lexeme = word or (is_prefix and starts_with(lexeme, word)) cross join unnest(positions) as nth
    group by nth)
select passage.place, passage.body,
    (select sum(ts_rank(present, query) * weight) from unnest(queries, weights) as given (query, weight))
    / log(2, 2 + octet_length(passage.body) / 6)
from held join unnest(places, bodies) with ordinality as passage (place, body, nth) using (nth)
where present @@ replace(match::text, '<->', '&')::tsquery;
end
"""
# The limits of packed rows: one has up to 64 passages, and takes as long as some ten to read.
_SAME_ROW = "replace(match::text, '<->', '&')::tsquery"
_SAME_PASSAGE = "replace(replace(match::text, '<->', '<0>'), '&', '<0>')::tsquery"
_WANTED_KIND = "(wanted = '' or s.kind = wanted)"
# With weights of 1, `ts_rank_cd` is the number of positions of a word.
_COUNT_PACKED = f"""
create or replace function tidegate_count_passages(queries tsquery[], most integer) returns setof bigint {_AS_OWNER}
begin atomic
select (select count(*) from (select {_OF_TENANT} and p.places is null and p.words @@ query limit most) single)
    + (select coalesce(sum(ts_rank_cd('{{1,1,1,1}}', words, query)), 0)::bigint from (
       select p.words {_OF_TENANT} and p.places is not null and p.words @@ query
       limit 1 + most / 16) packed)
from unnest(queries) with ordinality as given (query, nth) order by nth;
end
"""
# A packed row is ranked about as the best of its passages would be. The best rows are unpacked.
_RANKED_ROWS = """
select best.id, best.source, coalesce(part.place, best.place), coalesce(part.body, best.body),
    coalesce(part.score, best.score) as score
from (
    (select found.*, (select sum(ts_rank(found.words, query, 1) * weight)
                      from unnest(queries, weights) as given (query, weight)) as score
     from ({single}) found order by score desc, found.id desc limit most)
    union all
    (select found.*, (select sum(ts_rank(found.words, query) * weight)
                      from unnest(queries, weights) as given (query, weight)) as score
     from ({packed}) found order by score desc, found.id desc limit 1 + most / 4)) best
left join lateral tidegate_match_passages(best.words, best.places, best.bodies, match, queries, weights) part
    on best.places is not null
where best.places is null or part.place is not null
order by score desc, best.id desc, part.place desc limit most;
end
"""
_FIND_PACKED = f"""
create or replace function tidegate_find_passages(
    match tsquery, queries tsquery[], weights float8[], wanted text, scanned integer, most integer)
{_FOUND_COLUMNS} {_AS_OWNER} begin atomic
""" + _RANKED_ROWS.format(
    single=f"select p.* {_OF_TENANT} and p.places is null and p.words @@ match and {_WANTED_KIND} limit scanned",
    packed=f"select p.* {_OF_TENANT} and p.places is not null and p.words @@ {_SAME_PASSAGE} and {_WANTED_KIND}"
    " limit 1 + scanned / 8",
)
# `is true` and the inner limit keep the planner from the index of words, which would first find every passage that has
# a common word. There are far fewer packed rows, and each takes longer.
_FIND_RECENT_PACKED = f"""
create or replace function tidegate_find_recent_passages(
    match tsquery, queries tsquery[], weights float8[], wanted text, reach bigint, scanned integer, most integer)
{_FOUND_COLUMNS} {_AS_OWNER} begin atomic
""" + _RANKED_ROWS.format(
    single=f"select p.* {_OF_TENANT} and p.places is null and (p.words @@ match) is true and {_WANTED_KIND}"
    " and p.id > (select max(newest.id) from tidegate_passages newest) - reach order by p.id desc limit scanned",
    packed="select p.* from (select * from tidegate_passages newest where newest.places is not null"
    " order by newest.id desc limit reach / 100) p join tidegate_sources s on s.id = p.source"
    f" where s.tenant = {_LOGIN_TENANT} and {_WANTED_KIND} and p.words @@ {_SAME_ROW}"
    f" order by p.id desc limit 1 + scanned / 128",
)


def _separate_rows(link: Link, table: str) -> None:
    link.execute(f"alter table {table} enable row level security")
    link.execute(f"create policy own_tenant on {table} using (tenant = (select tidegate_tenant()))")


Migration = Callable[[Link], None]
MIGRATIONS: tuple[Migration, ...] = (
    create_tables,
    separate_tenants,
    create_files,
    create_search,
    search_with_index,
    let_owner_act_for_tenants,
    pack_passages,
)
"""The migrations in order. A released migration is never changed; a new one is added after it."""
BREAKING = frozenset({"create_tables", "separate_tenants", "create_files", "create_search"})
"""The migrations after which a version that does not know them must not start."""
_PATIENCE_SECONDS = 60
_LOCK_SECONDS = 1.5
"""Statements of workers wait behind a migration that waits for a lock. So it gives up soon, and tries again."""
# A table without the column is of a version before it.
_APPLIED = "select name, coalesce((to_jsonb(m) ->> 'breaking')::boolean, true) from tidegate_migrations m"


def migrate(link: Link, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Apply the migrations that the database does not have, all or none, while workers use it."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            with link.transaction():
                link.execute(f"set local lock_timeout = '{_PATIENCE_SECONDS}s'")
                link.execute("select pg_advisory_xact_lock(%s)", (MIGRATION_LOCK,))
                link.execute(f"set local lock_timeout = '{_LOCK_SECONDS}s'")
                _apply(link, migrations)
            return
        except LockNotAvailable:
            if time.monotonic() > deadline:
                raise
        time.sleep(random.uniform(0.1, 0.5))


def _apply(link: Link, migrations: Sequence[Migration]) -> None:
    # Asked first: even `if not exists` wants the right to create, which a role for daily work need not have.
    if link.execute("select to_regclass('tidegate_migrations')").fetchone() == (None,):
        link.execute("create table tidegate_migrations (name text primary key, applied timestamptz default now())")
    applied: dict[str, bool] = dict(link.execute(_APPLIED).fetchall())
    unknown = {name for name, is_breaking in applied.items() if is_breaking} - {step.__name__ for step in migrations}
    if unknown:
        cause = f"The tables were made by a newer tidegate (migration {min(unknown)}); nothing was touched."
        raise DamagedData(cause, "Upgrade tidegate.")
    new = [step for step in migrations if step.__name__ not in applied]
    for step in new:
        step(link)
        link.execute("insert into tidegate_migrations (name) values (%s)", (step.__name__,))
    if new and let_owner_act_for_tenants in migrations:
        link.execute("update tidegate_migrations set breaking = name = any(%s)", (sorted(BREAKING),))
