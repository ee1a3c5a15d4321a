\set masters 5000 * :scale
\uuid referential_id random(:masters + 1, 3 * :masters)
DELETE FROM document AS d USING alias AS a WHERE a.partition_key = partition_of(CAST(:referential_id AS uuid)) AND a.referential_id = :referential_id AND d.partition_key = a.document_partition_key AND d.id = a.document_id;
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
