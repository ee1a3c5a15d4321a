drop table if exists document_store, reference, reference_stage, alias, document_authorization, document cascade;
drop function if exists partition_of(uuid), new_uuid(), consume_documents(), write_references(smallint, bigint, uuid[], boolean);
drop sequence if exists document_id, alias_id;

-- The last digits of a UUID say in which partition its row is.
\if :partitions = '64'
create function partition_of(id uuid) returns smallint
    language sql immutable strict parallel safe
    as $$ select (pg_catalog.get_byte(pg_catalog.uuid_send(id), 15) & 63)::smallint $$;
\elif :partitions = '16'
create function partition_of(id uuid) returns smallint
    language sql immutable strict parallel safe
    as $$ select (pg_catalog.get_byte(pg_catalog.uuid_send(id), 15) & 15)::smallint $$;
\else
create function partition_of(id uuid) returns smallint
    language sql immutable strict parallel safe
    as $$ select 0::smallint $$;
\endif

\if :identity = 'v7'
-- A UUID of version 7: milliseconds since 1970, then random bits.
create function new_uuid() returns uuid language sql volatile parallel safe as $$
    select pg_catalog.encode(pg_catalog.set_bit(pg_catalog.set_bit(
               pg_catalog.overlay(pg_catalog.uuid_send(pg_catalog.gen_random_uuid()),
                   pg_catalog.substring(pg_catalog.int8send(
                       (extract(epoch from pg_catalog.clock_timestamp()) * 1000)::bigint), 3), 1, 6),
               52, 1), 53, 1), 'hex')::uuid
$$;
\else
create function new_uuid() returns uuid language sql volatile parallel safe as $$
    select pg_catalog.gen_random_uuid()
$$;
\endif

create table document_store (scale int not null);
insert into document_store values (:scale);

create sequence document_id;
create table document (
    partition_key smallint not null,
    id bigint not null default pg_catalog.nextval('document_id'),
    uuid uuid not null,
    resource varchar(64) not null,
    body jsonb not null,
    version int not null default 1,
    created_at timestamptz not null default pg_catalog.now(),
    modified_at timestamptz not null default pg_catalog.now(),
    readers jsonb,
    primary key (partition_key, id)
);
\if :toast = 'lz4'
alter table document alter column body set compression lz4;
\endif

create sequence alias_id;
create table alias (
    partition_key smallint not null,
    id bigint not null default pg_catalog.nextval('alias_id'),
    referential_id uuid not null,
    document_partition_key smallint not null,
    document_id bigint not null,
    primary key (partition_key, id)
);

create table reference (
    parent_partition_key smallint not null,
    parent_id bigint not null,
    alias_partition_key smallint not null,
    alias_id bigint not null,
    referenced_partition_key smallint not null,
    referenced_id bigint not null,
    primary key (parent_partition_key, parent_id, alias_partition_key, alias_id)
);

\if :references = 'staging_unlogged'
create unlogged table reference_stage (like reference including indexes);
\endif

\if :partitions <> '1'
-- The same tables, with a partition for each value of partition_of.
alter table document rename to document_form;
create table document (like document_form including all) partition by list (partition_key);
drop table document_form;
alter table alias rename to alias_form;
create table alias (like alias_form including all) partition by list (partition_key);
drop table alias_form;
alter table reference rename to reference_form;
\if :reference_partitioning = 'target'
create table reference (like reference_form including all) partition by list (alias_partition_key);
\else
create table reference (like reference_form including all) partition by list (parent_partition_key);
\endif
drop table reference_form;
create or replace function pg_temp.make_partitions(parent text, partitions int) returns void language plpgsql as $$
begin
    for key in 0 .. partitions - 1 loop
        execute pg_catalog.format('create table %I partition of %I for values in (%s)',
            parent || '_' || pg_catalog.lpad(key::text, 2, '0'), parent, key);
    end loop;
end
$$;
select pg_temp.make_partitions('document', :partitions::int);
select pg_temp.make_partitions('alias', :partitions::int);
select pg_temp.make_partitions('reference', :partitions::int);
\endif
