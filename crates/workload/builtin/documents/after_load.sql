select pg_catalog.setval('document_id', 10000::bigint * :scale);
select pg_catalog.setval('alias_id', 10000::bigint * :scale);

\if :uuid_index
create unique index document_uuid on document (partition_key, uuid);
\endif
\if :resource_index
create index document_resource on document (resource, created_at desc);
\endif
\if :referential_index
create unique index alias_referential on alias (partition_key, referential_id);
\endif
\if :alias_index
create index alias_document on alias (document_partition_key, document_id);
\endif
\if :checking_index
create index reference_alias on reference (alias_partition_key, alias_id);
\endif
\if :deleting_index
create index reference_parent on reference (parent_partition_key, parent_id);
\endif

alter table alias add foreign key (document_partition_key, document_id)
    references document (partition_key, id) on delete cascade;
alter table reference add foreign key (parent_partition_key, parent_id)
    references document (partition_key, id) on delete cascade;
alter table reference add foreign key (alias_partition_key, alias_id)
    references alias (partition_key, id);

\if :authorization = 'jsonb'
update document set readers = pg_catalog.jsonb_build_array(id % 100, id % 7);
create index document_readers on document using gin (readers);
\elif :authorization = 'trigger'
create table document_authorization (
    organization int not null,
    document_partition_key smallint not null,
    document_id bigint not null,
    primary key (organization, document_partition_key, document_id),
    foreign key (document_partition_key, document_id)
        references document (partition_key, id) on delete cascade
);
insert into document_authorization
select distinct organization, partition_key, id
  from document, pg_catalog.unnest(array[id % 100, id % 7]) as organization;
create index document_authorization_document on document_authorization (document_partition_key, document_id);
create function authorize_document() returns trigger language plpgsql as $$
begin
    delete from document_authorization
     where document_partition_key = new.partition_key and document_id = new.id;
    insert into document_authorization
    select distinct organization, new.partition_key, new.id
      from pg_catalog.unnest(array[new.id % 100, new.id % 7]) as organization;
    return null;
end
$$;
create trigger authorize_document after insert or update on document
    for each row execute function authorize_document();
\endif

\if :replica_identity = 'full'
do $$
declare relation regclass;
begin
    for relation in select oid from pg_catalog.pg_class where relkind in ('r', 'p') and relname ~ '^(document|alias|reference)(_\d+)?$' loop
        execute pg_catalog.format('alter table %s replica identity full', relation);
    end loop;
end
$$;
\endif

vacuum analyze document;
vacuum analyze alias;
vacuum analyze reference;
