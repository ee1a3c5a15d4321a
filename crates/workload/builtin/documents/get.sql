\set number random(1, 5000 * :scale)
\if :identity = 'v7'
\uuid uuid :number
\else
\uuid uuid hash(:number, 0)
\endif
SELECT uuid, version, body FROM document WHERE partition_key = partition_of(CAST(:uuid AS uuid)) AND uuid = :uuid;
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
