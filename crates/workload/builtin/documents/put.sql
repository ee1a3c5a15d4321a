-- A new state of a document that its reader has seen: the version must still be the same, or
-- nothing is written.
\set masters 5000 * :scale
\set number random(1, :masters)
-- What it refers to is as in post.sql.
\set changed case when random(1, 100) <= :references_kept then 0 else random(1, 1000000) end
\set kind (:number - 1) % 10
\set lowest case when :kind = 6 then 1 when :kind = 7 then 2 when :kind = 8 then 5 when :kind = 9 then 10 else 0 end
\set highest case when :kind = 5 then 1 when :kind = 6 then 2 when :kind = 7 then 5 when :kind = 8 then 10 when :kind = 9 then 50 else 0 end
\set before (:lowest * :references_each + 4) / 5
\set count (:highest * :references_each + 4) / 5 - :before
\set first (hash((:number - 1) / 10 + :changed, 0) & 1048575) % (:masters - 10 * greatest(:references_each, 1)) + :before + 1
\uuids targets :count :first..
\set stale case when random(1, 1000) <= :conflicts then 1 else 0 end
\if :identity = 'v7'
\uuid uuid :number
\else
\uuid uuid hash(:number, 0)
\endif
\set type {{text type}}
\text body {{text document}}
\set version 0
\set written 0
BEGIN;
\if :locks = 'no_key_update'
SELECT partition_key AS document_partition, id AS document_id, version FROM document WHERE partition_key = partition_of(CAST(:uuid AS uuid)) AND uuid = :uuid FOR NO KEY UPDATE \aset
\elif :locks = 'key_share'
SELECT partition_key AS document_partition, id AS document_id, version FROM document WHERE partition_key = partition_of(CAST(:uuid AS uuid)) AND uuid = :uuid FOR KEY SHARE \aset
\elif :locks = 'update_nowait'
SELECT partition_key AS document_partition, id AS document_id, version FROM document WHERE partition_key = partition_of(CAST(:uuid AS uuid)) AND uuid = :uuid FOR UPDATE NOWAIT \aset
\else
SELECT partition_key AS document_partition, id AS document_id, version FROM document WHERE partition_key = partition_of(CAST(:uuid AS uuid)) AND uuid = :uuid \aset
\endif
\if :idle > 0
\sleep :idle ms
\endif
\if :version > 0
\set seen :version - :stale
UPDATE document SET body = CAST(:body AS jsonb), version = version + 1, modified_at = pg_catalog.now() WHERE partition_key = CAST(:document_partition AS smallint) AND id = :document_id AND version = CAST(:seen AS int) RETURNING 1 AS written \aset
\endif
\if :written = 0
ROLLBACK;
\else
SELECT unchanged, inserted, updated, deleted, invalid FROM write_references(CAST(:document_partition AS smallint), :document_id, :targets, false) \gset
COMMIT;
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
