-- A new state of a document that its reader has seen: the version must still be the same, or
-- nothing is written.
\set masters 5000 * :scale
\set number random(1, :masters)
-- What it refers to follows from its number, as in the data, unless this put changes it.
\set changed {{text changed}}
\set kind (:number - 1) % 10
\set lowest {{text lowest_reference}}
\set highest {{text highest_reference}}
\set before (:lowest * :references_each + 4) / 5
\set count (:highest * :references_each + 4) / 5 - :before
\set first {{text first_target}}
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
