\set w_id random(1, :scale)
\set carrier random(1, 10)
-- The oldest order of each district that is not delivered, if there is one. Who comes at the
-- same time waits for its lock, and then takes the one after it.
WITH oldest AS (
    DELETE FROM tpcc_new_order USING (
        SELECT d, o_id FROM pg_catalog.generate_series(1, 10) AS d CROSS JOIN LATERAL (
            SELECT no_o_id AS o_id FROM tpcc_new_order WHERE no_w_id = :w_id AND no_d_id = d ORDER BY no_o_id LIMIT 1 FOR UPDATE
        ) AS first
    ) AS next WHERE no_w_id = :w_id AND no_d_id = d AND no_o_id = o_id RETURNING no_d_id, no_o_id
), delivered AS (
    UPDATE tpcc_orders SET o_carrier_id = :carrier FROM oldest WHERE o_w_id = :w_id AND o_d_id = no_d_id AND o_id = no_o_id RETURNING o_d_id, o_c_id
), lines AS (
    UPDATE tpcc_order_line SET ol_delivery_d = CURRENT_TIMESTAMP FROM oldest WHERE ol_w_id = :w_id AND ol_d_id = no_d_id AND ol_o_id = no_o_id RETURNING ol_d_id, ol_amount
), amounts AS (
    SELECT o_d_id, o_c_id, pg_catalog.sum(ol_amount) AS amount FROM delivered JOIN lines ON ol_d_id = o_d_id GROUP BY o_d_id, o_c_id
)
UPDATE tpcc_customer SET c_balance = c_balance + amount, c_delivery_cnt = c_delivery_cnt + 1 FROM amounts WHERE c_w_id = :w_id AND c_d_id = o_d_id AND c_id = o_c_id;
