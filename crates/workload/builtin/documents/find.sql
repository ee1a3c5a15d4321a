-- By identity: in a quarter of all cases there is no such document.
\uuid referential_id random(1, 10000 * :scale)
SELECT d.uuid, d.version, d.body FROM alias AS a JOIN document AS d ON d.partition_key = a.document_partition_key AND d.id = a.document_id WHERE a.partition_key = partition_of(CAST(:referential_id AS uuid)) AND a.referential_id = :referential_id;
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
