-- An upsert by identity. What refers to nothing, and a document that another client posts at
-- the same moment, is taken back.
\set masters 5000 * :scale
\set number random(:masters + 1, 3 * :masters)
\uuid referential_id :number
-- What a document refers to follows from its number, as in the data, unless this post changes it.
\set changed {{text changed}}
\set kind (:number - 1) % 10
\set lowest {{text lowest_reference}}
\set highest {{text highest_reference}}
\set before (:lowest * :references_each + 4) / 5
\set count (:highest * :references_each + 4) / 5 - :before
\set first case when random(1, 1000) <= :failures then 1000000000000 else {{text first_target}} end
\uuids targets :count :first..
\set type {{text type}}
\text body {{text document}}
\set keeps_readers case when :authorization = 'jsonb' then 1 else 0 end
\set document_id 0
\set is_new 0
-- The LIMIT as in find.sql.
BEGIN;
\if :locks = 'no_key_update'
SELECT d.partition_key AS document_partition, d.id AS document_id FROM (SELECT document_partition_key, document_id FROM alias WHERE partition_key = partition_of(CAST(:referential_id AS uuid)) AND referential_id = :referential_id LIMIT 1) AS a JOIN document AS d ON d.partition_key = a.document_partition_key AND d.id = a.document_id FOR NO KEY UPDATE OF d \aset
\elif :locks = 'key_share'
SELECT d.partition_key AS document_partition, d.id AS document_id FROM (SELECT document_partition_key, document_id FROM alias WHERE partition_key = partition_of(CAST(:referential_id AS uuid)) AND referential_id = :referential_id LIMIT 1) AS a JOIN document AS d ON d.partition_key = a.document_partition_key AND d.id = a.document_id FOR KEY SHARE OF d \aset
\elif :locks = 'update_nowait'
SELECT d.partition_key AS document_partition, d.id AS document_id FROM (SELECT document_partition_key, document_id FROM alias WHERE partition_key = partition_of(CAST(:referential_id AS uuid)) AND referential_id = :referential_id LIMIT 1) AS a JOIN document AS d ON d.partition_key = a.document_partition_key AND d.id = a.document_id FOR UPDATE OF d NOWAIT \aset
\else
SELECT d.partition_key AS document_partition, d.id AS document_id FROM (SELECT document_partition_key, document_id FROM alias WHERE partition_key = partition_of(CAST(:referential_id AS uuid)) AND referential_id = :referential_id LIMIT 1) AS a JOIN document AS d ON d.partition_key = a.document_partition_key AND d.id = a.document_id \aset
\endif
\if :idle > 0
\sleep :idle ms
\endif
\if :document_id = 0
\set is_new 1
WITH made AS (SELECT new_uuid() AS uuid, pg_catalog.nextval('document_id') AS id), named AS (INSERT INTO alias (partition_key, referential_id, document_partition_key, document_id) SELECT partition_of(CAST(:referential_id AS uuid)), :referential_id, partition_of(made.uuid), made.id FROM made ON CONFLICT DO NOTHING RETURNING document_partition_key, document_id) INSERT INTO document (partition_key, id, uuid, resource, body, readers) SELECT named.document_partition_key, named.document_id, made.uuid, 'resource-' || CAST(:type AS bigint), CAST(:body AS jsonb), CASE WHEN CAST(:keeps_readers AS int) = 1 THEN pg_catalog.jsonb_build_array(made.id % 100, made.id % 7) END FROM named, made RETURNING partition_key AS document_partition, id AS document_id \aset
\else
UPDATE document SET body = CAST(:body AS jsonb), version = version + 1, modified_at = pg_catalog.now() WHERE partition_key = CAST(:document_partition AS smallint) AND id = :document_id;
\endif
\if :document_id = 0
ROLLBACK;
\else
SELECT unchanged, inserted, updated, deleted, invalid FROM write_references(CAST(:document_partition AS smallint), :document_id, :targets, CAST(CAST(:is_new AS int) AS boolean)) \gset
\if :invalid > 0
ROLLBACK;
\else
COMMIT;
\endif
\endif
\if :reset = 'discard_all'
DISCARD ALL;
\elif :reset = 'selective'
CLOSE ALL;
UNLISTEN *;
SELECT pg_catalog.pg_advisory_unlock_all();
DISCARD SEQUENCES;
DISCARD TEMP;
RESET ALL;
\endif
