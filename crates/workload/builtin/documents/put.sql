-- A new state of a document that its reader has seen: the version must still be the same.
\set masters 5000 * :scale
\set number random(1, :masters)
\if :identity = 'v7'
\uuid uuid :number
\else
\uuid uuid hash(:number, 0)
\endif
\set text_bytes int(random_exponential(0, 4 * :document_bytes + 1, 4.0))
\text body {"number": {{:number}}, "name": {"first": "{{letters(random(3, 10))}}", "last": "{{letters(random(4, 12))}}"}, "changed": {{random(1, 1000000)}}, "remarks": "{{letters(:text_bytes)}}"}
\set version 0
BEGIN;
\if :locks = 'no_key_update'
SELECT id AS document_id, version FROM document WHERE partition_key = partition_of(CAST(:uuid AS uuid)) AND uuid = :uuid FOR NO KEY UPDATE \aset
\elif :locks = 'key_share'
SELECT id AS document_id, version FROM document WHERE partition_key = partition_of(CAST(:uuid AS uuid)) AND uuid = :uuid FOR KEY SHARE \aset
\elif :locks = 'update_nowait'
SELECT id AS document_id, version FROM document WHERE partition_key = partition_of(CAST(:uuid AS uuid)) AND uuid = :uuid FOR UPDATE NOWAIT \aset
\else
SELECT id AS document_id, version FROM document WHERE partition_key = partition_of(CAST(:uuid AS uuid)) AND uuid = :uuid \aset
\endif
\if :idle > 0
\sleep :idle ms
\endif
\if :version = 0
ROLLBACK;
\else
UPDATE document SET body = CAST(:body AS jsonb), version = version + 1, modified_at = pg_catalog.now() WHERE partition_key = partition_of(CAST(:uuid AS uuid)) AND id = :document_id AND version = :version;
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
