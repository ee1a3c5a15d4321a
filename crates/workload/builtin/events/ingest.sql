-- A transaction writes one event, or so many as the options rows and pattern say.
\batch :rows :pattern
\set page random(1, 5000)
\set duration random_exponential(1, 60000, 8.0)
\set session random(1, 1000000000)
\set roll random(1, 100)
\uuid user_id random_zipfian(1, 10000 * :scale, 1.2)
\text payload {"page": {{:page}}, "duration_ms": {{:duration}}, "session": {{:session}}}
-- Two statements rather than one, so that each kind of event sent alone has its own latency:
-- only critical ones touch the partial index.
\if :roll <= :critical_percent
\text type critical
INSERT INTO events (user_id, type, payload) VALUES (CAST(:user_id AS uuid), :type, CAST(:payload AS jsonb));
\else
\text type view
INSERT INTO events (user_id, type, payload) VALUES (CAST(:user_id AS uuid), :type, CAST(:payload AS jsonb));
\endif
\endbatch
