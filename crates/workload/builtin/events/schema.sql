drop table if exists events;

-- A generated column needs an immutable expression; the epoch of a timestamptz
-- is one only after it is brought to a fixed zone.
create table events (
    id uuid primary key default pg_catalog.gen_random_uuid(),
    user_id uuid not null,
    type varchar(50) not null,
    payload jsonb not null default '{}',
    "timestamp" timestamptz not null default pg_catalog.now(),
    partition_key int generated always as
        ((extract(epoch from "timestamp" at time zone 'UTC')::bigint operator(pg_catalog.%) 100)::int) stored
);
