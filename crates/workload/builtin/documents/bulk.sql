-- A bulk load: 200 new documents by COPY, then their aliases and five references of each, in one
-- transaction. Their UUIDs are in the order of time.
BEGIN;
SELECT pg_catalog.nextval('document_id') * 1000 AS base \gset
\batch 200 copy
\set id :base + :row
\set partition :id & (:partitions - 1)
\uuid uuid :id
\set number :id
\set type {{text type}}
\text resource resource-{{:type}}
\text body {{text document}}
INSERT INTO document (partition_key, id, uuid, resource, body) VALUES (:partition, :id, :uuid, :resource, :body);
\endbatch
INSERT INTO alias (partition_key, referential_id, document_partition_key, document_id) SELECT partition_of(n.uuid), n.uuid, partition_of(n.uuid), n.id FROM (SELECT id, pg_catalog.lpad(pg_catalog.to_hex(id), 32, '0')::uuid AS uuid FROM pg_catalog.generate_series(CAST(:base AS bigint) + 1, CAST(:base AS bigint) + 200) AS id) AS n;
INSERT INTO reference (parent_partition_key, parent_id, alias_partition_key, alias_id, referenced_partition_key, referenced_id) SELECT n.id & (CAST(:partitions AS int) - 1), n.id, a.partition_key, a.id, a.document_partition_key, a.document_id FROM (SELECT id, 1 + (id * 5 + k) % (5000 * CAST(:scale AS bigint)) AS target FROM pg_catalog.generate_series(CAST(:base AS bigint) + 1, CAST(:base AS bigint) + 200) AS id, pg_catalog.generate_series(0, 4) AS k) AS n JOIN alias AS a ON a.partition_key = n.target & (CAST(:partitions AS int) - 1) AND a.id = n.target;
COMMIT;
