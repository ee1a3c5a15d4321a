\set w_id random(1, :scale)
\set d_id random(1, 10)
\set c_w_id :w_id
\set c_d_id :d_id
\set cents random(100, 500000)
-- 15 in 100 customers belong to another warehouse.
\if :scale > 1 and random(1, 100) > 85
\set c_w_id (:w_id - 1 + random(1, :scale - 1)) % :scale + 1
\set c_d_id random(1, 10)
\endif
BEGIN;
UPDATE tpcc_warehouse SET w_ytd = w_ytd + CAST(:cents AS numeric) / 100 WHERE w_id = :w_id RETURNING w_name, w_street_1, w_street_2, w_city, w_state, w_zip;
UPDATE tpcc_district SET d_ytd = d_ytd + CAST(:cents AS numeric) / 100 WHERE d_w_id = :w_id AND d_id = :d_id RETURNING d_name, d_street_1, d_street_2, d_city, d_state, d_zip;
-- 60 in 100 customers are named by last name: the one in the middle by first name.
\if random(1, 100) <= 60
\set last ((random(0, 255) | random(0, 999)) + 223) % 1000
SELECT c_id FROM tpcc_customer WHERE c_w_id = :c_w_id AND c_d_id = :c_d_id AND c_last = pg_catalog.concat('LAST', CAST(:last AS int)) ORDER BY c_first LIMIT 1 OFFSET (SELECT (pg_catalog.count(*) + 1) / 2 - 1 FROM tpcc_customer WHERE c_w_id = :c_w_id AND c_d_id = :c_d_id AND c_last = pg_catalog.concat('LAST', CAST(:last AS int))) \gset
\else
\set c_id ((random(0, 1023) | random(1, 3000)) + 259) % 3000 + 1
\endif
UPDATE tpcc_customer SET c_balance = c_balance - CAST(:cents AS numeric) / 100, c_ytd_payment = c_ytd_payment + CAST(:cents AS numeric) / 100, c_payment_cnt = c_payment_cnt + 1, c_data = CASE c_credit WHEN 'BC' THEN pg_catalog.left(pg_catalog.concat_ws(' ', c_id, c_d_id, c_w_id, CAST(:d_id AS int), CAST(:w_id AS int), CAST(:cents AS int), c_data), 500) ELSE c_data END WHERE c_w_id = :c_w_id AND c_d_id = :c_d_id AND c_id = :c_id RETURNING c_first, c_last, c_credit, c_balance;
INSERT INTO tpcc_history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data) VALUES (:c_id, :c_d_id, :c_w_id, :d_id, :w_id, CURRENT_TIMESTAMP, CAST(:cents AS numeric) / 100, 'payment');
END;
