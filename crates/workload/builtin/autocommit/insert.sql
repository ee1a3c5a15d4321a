INSERT INTO autocommit_probe (client_id, payload) VALUES (:client_id, repeat('x', :payload_bytes));
