\set w_id random(1, :scale)
\set d_id random(1, 10)
\set threshold random(10, 20)
BEGIN;
SELECT d_next_o_id AS next_o_id FROM tpcc_district WHERE d_w_id = :w_id AND d_id = :d_id \gset
SELECT pg_catalog.count(DISTINCT s_i_id) FROM tpcc_order_line JOIN tpcc_stock ON s_w_id = ol_w_id AND s_i_id = ol_i_id WHERE ol_w_id = :w_id AND ol_d_id = :d_id AND ol_o_id < :next_o_id AND ol_o_id >= CAST(:next_o_id AS int) - 20 AND s_quantity < :threshold;
END;
