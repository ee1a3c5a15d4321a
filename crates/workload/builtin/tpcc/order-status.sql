\set c_w_id random(1, :scale)
\set c_d_id random(1, 10)
BEGIN;
\if random(1, 100) <= 60
\set last ((random(0, 255) | random(0, 999)) + 223) % 1000
SELECT c_id FROM tpcc_customer WHERE c_w_id = :c_w_id AND c_d_id = :c_d_id AND c_last = pg_catalog.concat('LAST', CAST(:last AS int)) ORDER BY c_first LIMIT 1 OFFSET (SELECT (pg_catalog.count(*) + 1) / 2 - 1 FROM tpcc_customer WHERE c_w_id = :c_w_id AND c_d_id = :c_d_id AND c_last = pg_catalog.concat('LAST', CAST(:last AS int))) \gset
\else
\set c_id ((random(0, 1023) | random(1, 3000)) + 259) % 3000 + 1
\endif
SELECT c_balance, c_first, c_middle, c_last FROM tpcc_customer WHERE c_w_id = :c_w_id AND c_d_id = :c_d_id AND c_id = :c_id;
SELECT o_id, o_entry_d, o_carrier_id FROM tpcc_orders WHERE o_w_id = :c_w_id AND o_d_id = :c_d_id AND o_c_id = :c_id ORDER BY o_id DESC LIMIT 1 \gset
SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM tpcc_order_line WHERE ol_w_id = :c_w_id AND ol_d_id = :c_d_id AND ol_o_id = :o_id;
END;
