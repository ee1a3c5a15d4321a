\set user random_zipfian(1, 10000 * :scale, 1.2)
\set page random(1, 5000)
\set duration random_exponential(1, 60000, 8.0)
\set session random(1, 1000000000)
\set roll random(1, 100)
-- Two statements rather than a CASE, so that each kind of event has its own
-- latency: only critical ones touch the partial index.
\if :roll <= :critical_percent
INSERT INTO events (user_id, type, payload) VALUES (CAST(pg_catalog.lpad(pg_catalog.to_hex(CAST(:user AS bigint)), 32, '0') AS uuid), 'critical', pg_catalog.jsonb_build_object('page', CAST(:page AS int), 'duration_ms', CAST(:duration AS int), 'session', CAST(:session AS int)));
\else
INSERT INTO events (user_id, type, payload) VALUES (CAST(pg_catalog.lpad(pg_catalog.to_hex(CAST(:user AS bigint)), 32, '0') AS uuid), 'view', pg_catalog.jsonb_build_object('page', CAST(:page AS int), 'duration_ms', CAST(:duration AS int), 'session', CAST(:session AS int)));
\endif
