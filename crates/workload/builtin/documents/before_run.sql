-- A slot of an earlier run would hold back what it has not read.
select pg_catalog.pg_drop_replication_slot(slot_name)
  from pg_catalog.pg_replication_slots where slot_name = 'documents' and not active;
drop publication if exists documents;
\if :publication <> 'none'
create publication documents for table document, alias, reference;
\endif
\if :publication = 'slot' or :publication = 'consumed'
select pg_catalog.pg_create_logical_replication_slot('documents', 'pgoutput');
\endif
drop function if exists consume_documents();
\if :publication = 'consumed'
-- Reads and confirms what has been published since, as a subscriber would.
create function consume_documents() returns bigint language sql volatile as $$
    select pg_catalog.count(*) from pg_catalog.pg_logical_slot_get_binary_changes(
        'documents', null, null, 'proto_version', '1', 'publication_names', 'documents')
$$;
\else
create function consume_documents() returns bigint language sql volatile as $$ select 0::bigint $$;
\endif
