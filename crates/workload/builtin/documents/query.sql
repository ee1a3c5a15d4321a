-- The newest of a resource, and who refers to one of them: the question whose filter the
-- partitions of references do not have.
\set kind random(0, 7)
\uuid referential_id random(1, 5000 * :scale)
SELECT uuid, version, body FROM document WHERE resource = 'resource-' || CAST(:kind AS bigint) ORDER BY created_at DESC LIMIT 25;
SELECT r.parent_partition_key, r.parent_id FROM alias AS a JOIN reference AS r ON r.alias_partition_key = a.partition_key AND r.alias_id = a.id WHERE a.partition_key = partition_of(CAST(:referential_id AS uuid)) AND a.referential_id = :referential_id LIMIT 25;
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
