"""The SQL of the PostgreSQL store. Each statement sees one snapshot and is executed completely or not at all."""

BATCH_BYTES = 4 << 20
BATCH_RECORDS = 256
"""Bytes that are sent or received at once, unless a single record is larger."""

NEW = """
insert into tidegate_sessions (tenant, name, head, size, created, used)
values (tidegate_tenant(), %(name)b, %(count)s, %(size)s, clock_timestamp(), clock_timestamp())
on conflict (tenant, name) do nothing
returning id, tenant
"""
NEXT = """
update tidegate_sessions set head = head + %(count)s, size = size + %(size)s, used = clock_timestamp()
where tenant = (select tidegate_tenant()) and name = %(name)b and head = %(after)s
returning id, tenant
"""
KEEP = """
insert into tidegate_records (session, tenant, seq, data)
select mine.id, mine.tenant, %(after)s + place, data
from mine, unnest(%(records)b::bytea[]) with ordinality as given (data, place)
"""
# Holds until the end of the transaction, which is this statement: nothing is left on the connection.
DURABLE = """
set_config('synchronous_commit', case when current_setting('synchronous_commit') in ('off', 'local', 'remote_write')
           then 'on' else current_setting('synchronous_commit') end, true)
"""
MAX_IDLE = "set_config('idle_in_transaction_session_timeout', %s, true)"
APPEND_FIRST = f"with mine as ({NEW}), kept as ({KEEP}) select id, {DURABLE} from mine"
APPEND_NEXT = f"with mine as ({NEXT}), kept as ({KEEP}) select id, {DURABLE} from mine"

# Appends of many sessions in one statement, each accepted or refused for itself. A name occurs once.
APPEND_MANY = f"""
with given as (
    select * from unnest(%(names)b::bytea[], %(afters)s::bigint[], %(counts)s::bigint[], %(sizes)s::bigint[])
        as given (name, after, count, size)),
moved as (
    update tidegate_sessions s set head = s.head + g.count, size = s.size + g.size, used = clock_timestamp()
    from given g
    where s.tenant = (select tidegate_tenant()) and s.name = g.name and s.head = g.after and g.after > 0
    returning s.id, s.tenant, s.name),
made as (
    insert into tidegate_sessions (tenant, name, head, size, created, used)
    select tidegate_tenant(), name, count, size, clock_timestamp(), clock_timestamp() from given where after = 0
    on conflict (tenant, name) do nothing
    returning id, tenant, name),
mine as (select * from moved union all select * from made),
kept as (
    insert into tidegate_records (session, tenant, seq, data)
    select mine.id, mine.tenant, r.seq, r.data
    from unnest(%(record_names)b::bytea[], %(seqs)s::bigint[], %(records)b::bytea[]) as r (name, seq, data)
    join mine on mine.name = r.name)
select name, {DURABLE} from mine
"""
HEADS = "select name, head from tidegate_sessions where tenant = (select tidegate_tenant()) and name = any(%b::bytea[])"

# The inner limit keeps a page of large records small. One statement is one snapshot: head and records agree.
PAGE = f"""
select s.id, s.head, s.page, r.seq, r.data
from (select id, head, greatest(1, least({BATCH_RECORDS}, {BATCH_BYTES} * head / greatest(size, 1))) as page
      from tidegate_sessions where tenant = (select tidegate_tenant()) and name = %(name)b) s
left join lateral (select seq, data from tidegate_records where session = s.id and seq >= %(start)s
                   order by seq limit s.page) r on true
order by r.seq
"""
BEHIND = """
select min(r.seq) from tidegate_sessions s join tidegate_records r on r.session = s.id
where s.tenant = (select tidegate_tenant()) and s.name = %b and r.seq > %s and r.seq <= %s
"""
REST = "select seq, data from tidegate_records where session = %s and seq >= %s and seq <= %s order by seq"

# Also one snapshot: a concurrent append or delete is either completely before the fork or completely after it.
FORK = """
with source as (
    select id, head from tidegate_sessions where tenant = (select tidegate_tenant()) and name = %(name)b),
made as (
    insert into tidegate_sessions (tenant, name, head, size, created, used)
    select tidegate_tenant(), %(new)b, %(at)s,
        (select coalesce(sum(octet_length(data)), 0) from tidegate_records where session = source.id and seq <= %(at)s),
        clock_timestamp(), clock_timestamp()
    from source where %(at)s between 1 and head
    on conflict (tenant, name) do nothing returning id, tenant),
copied as (
    insert into tidegate_records (session, tenant, seq, data)
    select made.id, made.tenant, r.seq, r.data
    from made, source, tidegate_records r where r.session = source.id and r.seq <= %(at)s)
select source.head, made.id from source left join made on true
"""
REWRITE = """
insert into tidegate_records (session, tenant, seq, data)
select %(id)s, tidegate_tenant(), seq, data
from unnest(%(numbers)s::bigint[], %(records)b::bytea[]) as given (seq, data)
on conflict (session, seq) do update set data = excluded.data
"""
RESIZE = """
update tidegate_sessions s set size = (select sum(octet_length(data)) from tidegate_records where session = s.id)
where id = %s
"""
LANDED = """
select r.seq, sha256(r.data) from tidegate_sessions s join tidegate_records r on r.session = s.id
where s.tenant = (select tidegate_tenant()) and s.name = %b and r.seq > %s and r.seq <= %s order by r.seq
"""
SESSIONS = """
select name, head, extract(epoch from created)::float8, extract(epoch from used)::float8, size
from tidegate_sessions where tenant = (select tidegate_tenant()) order by used desc, id desc
"""
NAMES = """
select name from tidegate_sessions where tenant = (select tidegate_tenant()) and name >= %b and name < %b
order by used desc, id desc
"""
# Workers see the rows of their tenant only, the owner those of all.
TENANTS = """
select tenant from (
    select tenant from tidegate_tenants union select tenant from tidegate_sessions
    union select tenant from tidegate_files union select tenant from tidegate_sources) seen
where tenant <> tidegate_tenant() and tenant <> '' order by tenant
"""
# The sessions last: their number is that of the answer.
REMOVE_TENANT = tuple(
    f"delete from tidegate_{table} where tenant = (select tidegate_tenant())"
    for table in ("sources", "files", "sessions")
)
HEAD = "select head from tidegate_sessions where tenant = (select tidegate_tenant()) and name = %b"
LOCK_SESSION = (
    "select id, head from tidegate_sessions where tenant = (select tidegate_tenant()) and name = %b for update"
)

# Locks of a transaction. The second one is given back at the end of its statement: it only asks.
_LOCK_NUMBER = "hashtextextended(tidegate_tenant() || '/' || encode(%b, 'hex'), 0)"
TRY_LOCK = f"select pg_try_advisory_xact_lock({_LOCK_NUMBER})"
TRY_SHARED_LOCK = f"select pg_try_advisory_xact_lock_shared({_LOCK_NUMBER})"

# Files that workers share. A file is its parts in order, so that a text can be appended without reading the rest.
_FILE = "tenant = (select tidegate_tenant()) and folder = %(folder)b and name = %(name)b"
LIST_FILES = """
select name, sum(octet_length(data))::bigint, max(changed)::text || ' ' || count(*)
from tidegate_files where tenant = (select tidegate_tenant()) and folder = %(folder)b group by name
"""
HAS_FILE = f"select exists (select from tidegate_files where {_FILE})"
HAS_FILES = (
    "select exists (select from tidegate_files where tenant = (select tidegate_tenant()) and folder = %(folder)b)"
)
READ_FILE = f"select data from tidegate_files where {_FILE} order by part"
READ_FILES = """
select name, string_agg(data, ''::bytea order by part) from tidegate_files
where tenant = (select tidegate_tenant()) and folder = %(folder)b and name > %(after)b
group by name order by name limit %(most)s
"""
FILE_SIZE = (
    f"select coalesce(sum(octet_length(data)), 0)::bigint, coalesce(max(part), -1) from tidegate_files where {_FILE}"
)
FILE_PARTS_FROM_END = f"select data from tidegate_files where {_FILE} order by part desc"
REMOVE_FILE = f"delete from tidegate_files where {_FILE}"
ADD_PART = """
insert into tidegate_files (tenant, folder, name, part, data, changed)
values (tidegate_tenant(), %(folder)b, %(name)b, %(part)s, %(data)b, clock_timestamp())
"""
LOCK_FILE = """
select pg_advisory_xact_lock(hashtextextended(
    tidegate_tenant() || '/' || encode(%(folder)b, 'hex') || '/' || encode(%(name)b, 'hex'), 1))
"""
