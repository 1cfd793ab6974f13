"""The SQL of the PostgreSQL store. Each statement sees one snapshot and is executed completely or not at all."""

BATCH_BYTES = 4 << 20
BATCH_RECORDS = 256
"""Bytes that are sent or received at once, unless a single record is larger."""

NEW = """
insert into tidegate_sessions (name, head, size, created, used)
values (%(name)b, %(count)s, %(size)s, clock_timestamp(), clock_timestamp())
on conflict (name) do nothing
returning id
"""
NEXT = """
update tidegate_sessions set head = head + %(count)s, size = size + %(size)s, used = clock_timestamp()
where name = %(name)b and head = %(after)s
returning id
"""
KEEP = """
insert into tidegate_records (session, seq, data)
select mine.id, %(after)s + place, data from mine, unnest(%(records)b::bytea[]) with ordinality as given (data, place)
"""
APPEND_FIRST = f"with mine as ({NEW}), kept as ({KEEP}) select id from mine"
APPEND_NEXT = f"with mine as ({NEXT}), kept as ({KEEP}) select id from mine"

# The inner limit keeps a page of large records small. One statement is one snapshot: head and records agree.
PAGE = f"""
select s.id, s.head, s.page, r.seq, r.data
from (select id, head, greatest(1, least({BATCH_RECORDS}, {BATCH_BYTES} * head / greatest(size, 1))) as page
      from tidegate_sessions where name = %(name)b) s
left join lateral (select seq, data from tidegate_records where session = s.id and seq >= %(start)s
                   order by seq limit s.page) r on true
order by r.seq
"""
BEHIND = """
select min(r.seq) from tidegate_sessions s join tidegate_records r on r.session = s.id
where s.name = %b and r.seq > %s and r.seq <= %s
"""
REST = "select seq, data from tidegate_records where session = %s and seq >= %s and seq <= %s order by seq"

# Also one snapshot: a concurrent append or delete is either completely before the fork or completely after it.
FORK = """
with source as (select id, head from tidegate_sessions where name = %(name)b),
made as (
    insert into tidegate_sessions (name, head, size, created, used)
    select %(new)b, %(at)s,
        (select coalesce(sum(octet_length(data)), 0) from tidegate_records where session = source.id and seq <= %(at)s),
        clock_timestamp(), clock_timestamp()
    from source where %(at)s between 1 and head
    on conflict (name) do nothing returning id),
copied as (
    insert into tidegate_records (session, seq, data)
    select made.id, r.seq, r.data from made, source, tidegate_records r where r.session = source.id and r.seq <= %(at)s)
select source.head, made.id from source left join made on true
"""
REWRITE = """
insert into tidegate_records (session, seq, data)
select %(id)s, seq, data from unnest(%(numbers)s::bigint[], %(records)b::bytea[]) as given (seq, data)
on conflict (session, seq) do update set data = excluded.data
"""
RESIZE = """
update tidegate_sessions s set size = (select sum(octet_length(data)) from tidegate_records where session = s.id)
where id = %s
"""
LANDED = """
select r.seq, sha256(r.data) from tidegate_sessions s join tidegate_records r on r.session = s.id
where s.name = %b and r.seq > %s and r.seq <= %s order by r.seq
"""
SESSIONS = """
select name, head, extract(epoch from created)::float8, extract(epoch from used)::float8, size
from tidegate_sessions order by used desc, id desc
"""
