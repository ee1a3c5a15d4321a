INSERT INTO autocommit_probe (client_id, payload) VALUES (:client_id, pg_catalog.repeat('x', :payload_bytes));
