-- Brings the references of a document to what it refers to, each once, and tells what that
-- took. invalid says how many targets do not exist: what is written is to be rolled back then.

create or replace function pg_temp.make_write_references(way text) returns void language plpgsql as $make$
declare
    -- What a document refers to: the aliases that its targets name, each looked up by its index.
    wanted constant text := $sql$
        select distinct a.partition_key as alias_partition_key, a.id as alias_id,
               a.document_partition_key as referenced_partition_key, a.document_id as referenced_id
          from pg_catalog.unnest(targets) as target (referential_id)
         cross join lateral (
               select * from alias
                where partition_key = partition_of(target.referential_id)
                  and referential_id = target.referential_id
                limit 1) as a$sql$;
    insertion constant text := $sql$
        insert into reference (parent_partition_key, parent_id, alias_partition_key, alias_id,
                               referenced_partition_key, referenced_id)
        select partition, document, alias_partition_key, alias_id, referenced_partition_key, referenced_id
          from (%s) as wanted$sql$;
    upsert constant text := $sql$
        on conflict (parent_partition_key, parent_id, alias_partition_key, alias_id)
        do update set referenced_partition_key = excluded.referenced_partition_key,
                      referenced_id = excluded.referenced_id$sql$;
    -- How many references there were; the upsert tells how many there are.
    count_before constant text :=
        'select pg_catalog.count(*) into updated from reference '
        'where parent_partition_key = partition and parent_id = document';
    count_unchanged constant text :=
        'select pg_catalog.count(*) into unchanged from reference '
        'where parent_partition_key = partition and parent_id = document';
    count_upserted constant text := 'updated := updated - deleted; inserted := inserted - updated';
    deletion constant text := $sql$
        delete from reference as r
         where r.parent_partition_key = partition and r.parent_id = document
           and not exists (select 1 from (%s) as wanted
                            where wanted.alias_partition_key = r.alias_partition_key
                              and wanted.alias_id = r.alias_id)$sql$;
    count_inserted constant text := 'get diagnostics inserted = row_count';
    count_deleted constant text := 'get diagnostics deleted = row_count';
    staged constant text := $sql$
        select alias_partition_key, alias_id, referenced_partition_key, referenced_id
          from reference_stage
         where parent_partition_key = partition and parent_id = document$sql$;
    stage constant text := $sql$
        insert into reference_stage (parent_partition_key, parent_id, alias_partition_key, alias_id,
                                     referenced_partition_key, referenced_id)
        select partition, document, alias_partition_key, alias_id, referenced_partition_key, referenced_id
          from (%s) as wanted$sql$;
    steps text[];
    on_conflict text[] := array[
        count_before, pg_catalog.format(insertion, wanted) || upsert, count_inserted,
        pg_catalog.format(deletion, wanted), count_deleted, count_upserted];
    from_stage text[] := array[
        count_before, pg_catalog.format(insertion, staged) || upsert, count_inserted,
        pg_catalog.format(deletion, staged), count_deleted, count_upserted];
begin
    steps := case way
    when 'delete_insert' then array[
        'delete from reference where parent_partition_key = partition and parent_id = document',
        count_deleted, pg_catalog.format(insertion, wanted), count_inserted]
    when 'on_conflict' then on_conflict
    when 'pure_insert' then array['if is_new then ' || pg_catalog.format(insertion, wanted),
        count_inserted, 'exit writing', 'end if'] || on_conflict
    when 'equality_first' then array['if is_new then ' || pg_catalog.format(insertion, wanted),
        count_inserted, 'exit writing', 'end if',
        count_unchanged, pg_catalog.format($sql$
        if unchanged = (select pg_catalog.count(*) from (%1$s) as wanted)
        and not exists (
            (%1$s) except all
            (select alias_partition_key, alias_id, referenced_partition_key, referenced_id
               from reference where parent_partition_key = partition and parent_id = document)) then
            exit writing$sql$, wanted),
        'end if', 'unchanged := 0'] || on_conflict
    -- As targets stay where they are nothing is updated: what was there is unchanged or deleted.
    when 'merge' then array[
        count_unchanged, pg_catalog.format($sql$
        merge into reference as r using (%s) as wanted
           on r.parent_partition_key = partition and r.parent_id = document
          and r.alias_partition_key = wanted.alias_partition_key and r.alias_id = wanted.alias_id
         when matched and (r.referenced_partition_key, r.referenced_id)
                      is distinct from (wanted.referenced_partition_key, wanted.referenced_id)
         then update set referenced_partition_key = wanted.referenced_partition_key,
                         referenced_id = wanted.referenced_id
         when not matched
         then insert (parent_partition_key, parent_id, alias_partition_key, alias_id,
                      referenced_partition_key, referenced_id)
              values (partition, document, wanted.alias_partition_key, wanted.alias_id,
                      wanted.referenced_partition_key, wanted.referenced_id)$sql$, wanted),
        count_inserted, pg_catalog.format(deletion, wanted), count_deleted,
        'unchanged := unchanged - deleted']
    when 'staging_temp' then array[
        'create temporary table if not exists reference_stage (like reference) on commit preserve rows',
        'truncate reference_stage', pg_catalog.format(stage, wanted)] || from_stage
    when 'staging_unlogged' then array[pg_catalog.format(stage, wanted)] || from_stage || array[
        'delete from reference_stage where parent_partition_key = partition and parent_id = document']
    end;
    execute pg_catalog.format($sql$
        create function write_references(partition smallint, document bigint, targets uuid[], is_new boolean,
            out unchanged int, out inserted int, out updated int, out deleted int, out invalid int)
        language plpgsql
        -- Planned for each call, plans over all partitions cost more than what they do.
        set plan_cache_mode = force_generic_plan
        as %L$sql$, pg_catalog.format($body$
    #variable_conflict use_column
    begin
        unchanged := 0; inserted := 0; updated := 0; deleted := 0; invalid := 0;
        <<writing>>
        begin
            %s;
        end;
        -- A target without a reference by now does not exist, or is named twice.
        if unchanged + inserted + updated < pg_catalog.cardinality(targets) then
            select greatest(pg_catalog.count(distinct id) - unchanged - inserted - updated, 0) into invalid
              from pg_catalog.unnest(targets) as id;
        end if;
    end$body$, pg_catalog.array_to_string(steps, ';')));
end
$make$;
\if :references = 'delete_insert'
select pg_temp.make_write_references('delete_insert');
\elif :references = 'on_conflict'
select pg_temp.make_write_references('on_conflict');
\elif :references = 'merge'
select pg_temp.make_write_references('merge');
\elif :references = 'staging_temp'
select pg_temp.make_write_references('staging_temp');
\elif :references = 'staging_unlogged'
select pg_temp.make_write_references('staging_unlogged');
\elif :references = 'pure_insert'
select pg_temp.make_write_references('pure_insert');
\elif :references = 'equality_first'
select pg_temp.make_write_references('equality_first');
\endif
