-- By identity: in a quarter of all cases there is no such document.
\uuid referential_id random(1, 10000 * :scale)
-- The LIMIT tells a generic plan, which expects one in each partition, that there is one alias.
SELECT d.uuid, d.version, d.body FROM (SELECT document_partition_key, document_id FROM alias WHERE partition_key = partition_of(CAST(:referential_id AS uuid)) AND referential_id = :referential_id LIMIT 1) AS a JOIN document AS d ON d.partition_key = a.document_partition_key AND d.id = a.document_id;
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
