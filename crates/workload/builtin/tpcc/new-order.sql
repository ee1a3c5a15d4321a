-- The lines of the order are drawn first: whether all come from the home warehouse is kept
-- with the order. The language has no loops, so that each line stands here.
\set w_id random(1, :scale)
\set d_id random(1, 10)
\set c_id ((random(0, 1023) | random(1, 3000)) + 259) % 3000 + 1
\set lines random(5, 15)
\set unused_item random(1, 100) = 1
\set item_1 ((random(0, 8191) | random(1, 100000)) + 7911) % 100000 + 1
\set from_1 case when :scale > 1 and random(1, 100) = 1 then (:w_id - 1 + random(1, :scale - 1)) % :scale + 1 else :w_id end
\set quantity_1 random(1, 10)
\set item_2 ((random(0, 8191) | random(1, 100000)) + 7911) % 100000 + 1
\set from_2 case when :scale > 1 and random(1, 100) = 1 then (:w_id - 1 + random(1, :scale - 1)) % :scale + 1 else :w_id end
\set quantity_2 random(1, 10)
\set item_3 ((random(0, 8191) | random(1, 100000)) + 7911) % 100000 + 1
\set from_3 case when :scale > 1 and random(1, 100) = 1 then (:w_id - 1 + random(1, :scale - 1)) % :scale + 1 else :w_id end
\set quantity_3 random(1, 10)
\set item_4 ((random(0, 8191) | random(1, 100000)) + 7911) % 100000 + 1
\set from_4 case when :scale > 1 and random(1, 100) = 1 then (:w_id - 1 + random(1, :scale - 1)) % :scale + 1 else :w_id end
\set quantity_4 random(1, 10)
\set item_5 ((random(0, 8191) | random(1, 100000)) + 7911) % 100000 + 1
\set from_5 case when :scale > 1 and random(1, 100) = 1 then (:w_id - 1 + random(1, :scale - 1)) % :scale + 1 else :w_id end
\set quantity_5 random(1, 10)
\set item_6 ((random(0, 8191) | random(1, 100000)) + 7911) % 100000 + 1
\set from_6 case when :scale > 1 and random(1, 100) = 1 then (:w_id - 1 + random(1, :scale - 1)) % :scale + 1 else :w_id end
\set quantity_6 random(1, 10)
\set item_7 ((random(0, 8191) | random(1, 100000)) + 7911) % 100000 + 1
\set from_7 case when :scale > 1 and random(1, 100) = 1 then (:w_id - 1 + random(1, :scale - 1)) % :scale + 1 else :w_id end
\set quantity_7 random(1, 10)
\set item_8 ((random(0, 8191) | random(1, 100000)) + 7911) % 100000 + 1
\set from_8 case when :scale > 1 and random(1, 100) = 1 then (:w_id - 1 + random(1, :scale - 1)) % :scale + 1 else :w_id end
\set quantity_8 random(1, 10)
\set item_9 ((random(0, 8191) | random(1, 100000)) + 7911) % 100000 + 1
\set from_9 case when :scale > 1 and random(1, 100) = 1 then (:w_id - 1 + random(1, :scale - 1)) % :scale + 1 else :w_id end
\set quantity_9 random(1, 10)
\set item_10 ((random(0, 8191) | random(1, 100000)) + 7911) % 100000 + 1
\set from_10 case when :scale > 1 and random(1, 100) = 1 then (:w_id - 1 + random(1, :scale - 1)) % :scale + 1 else :w_id end
\set quantity_10 random(1, 10)
\set item_11 ((random(0, 8191) | random(1, 100000)) + 7911) % 100000 + 1
\set from_11 case when :scale > 1 and random(1, 100) = 1 then (:w_id - 1 + random(1, :scale - 1)) % :scale + 1 else :w_id end
\set quantity_11 random(1, 10)
\set item_12 ((random(0, 8191) | random(1, 100000)) + 7911) % 100000 + 1
\set from_12 case when :scale > 1 and random(1, 100) = 1 then (:w_id - 1 + random(1, :scale - 1)) % :scale + 1 else :w_id end
\set quantity_12 random(1, 10)
\set item_13 ((random(0, 8191) | random(1, 100000)) + 7911) % 100000 + 1
\set from_13 case when :scale > 1 and random(1, 100) = 1 then (:w_id - 1 + random(1, :scale - 1)) % :scale + 1 else :w_id end
\set quantity_13 random(1, 10)
\set item_14 ((random(0, 8191) | random(1, 100000)) + 7911) % 100000 + 1
\set from_14 case when :scale > 1 and random(1, 100) = 1 then (:w_id - 1 + random(1, :scale - 1)) % :scale + 1 else :w_id end
\set quantity_14 random(1, 10)
\set item_15 ((random(0, 8191) | random(1, 100000)) + 7911) % 100000 + 1
\set from_15 case when :scale > 1 and random(1, 100) = 1 then (:w_id - 1 + random(1, :scale - 1)) % :scale + 1 else :w_id end
\set quantity_15 random(1, 10)
\set all_local case when :from_1 = :w_id and :from_2 = :w_id and :from_3 = :w_id and :from_4 = :w_id and :from_5 = :w_id and (:lines < 6 or :from_6 = :w_id) and (:lines < 7 or :from_7 = :w_id) and (:lines < 8 or :from_8 = :w_id) and (:lines < 9 or :from_9 = :w_id) and (:lines < 10 or :from_10 = :w_id) and (:lines < 11 or :from_11 = :w_id) and (:lines < 12 or :from_12 = :w_id) and (:lines < 13 or :from_13 = :w_id) and (:lines < 14 or :from_14 = :w_id) and (:lines < 15 or :from_15 = :w_id) then 1 else 0 end
BEGIN;
SELECT c_discount, c_last, c_credit, w_tax FROM tpcc_customer, tpcc_warehouse WHERE w_id = :w_id AND c_w_id = w_id AND c_d_id = :d_id AND c_id = :c_id;
UPDATE tpcc_district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = :w_id AND d_id = :d_id RETURNING d_next_o_id - 1 AS o_id, d_tax \gset
INSERT INTO tpcc_orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local) VALUES (:o_id, :d_id, :w_id, :c_id, CURRENT_TIMESTAMP, NULL, :lines, :all_local);
INSERT INTO tpcc_new_order (no_o_id, no_d_id, no_w_id) VALUES (:o_id, :d_id, :w_id);
SELECT i_price AS price, i_name, i_data FROM tpcc_item WHERE i_id = :item_1 \gset
UPDATE tpcc_stock SET s_quantity = s_quantity - :quantity_1 + CASE WHEN s_quantity - :quantity_1 >= 10 THEN 0 ELSE 91 END, s_ytd = s_ytd + :quantity_1, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + CASE WHEN s_w_id = :w_id THEN 0 ELSE 1 END WHERE s_w_id = :from_1 AND s_i_id = :item_1;
INSERT INTO tpcc_order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d, ol_quantity, ol_amount, ol_dist_info) SELECT CAST(:o_id AS int), CAST(:d_id AS int), CAST(:w_id AS int), 1, s_i_id, s_w_id, NULL, CAST(:quantity_1 AS int), CAST(:quantity_1 AS int) * CAST(:price AS numeric), (ARRAY[s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07, s_dist_08, s_dist_09, s_dist_10])[CAST(:d_id AS int)] FROM tpcc_stock WHERE s_w_id = :from_1 AND s_i_id = :item_1;
SELECT i_price AS price, i_name, i_data FROM tpcc_item WHERE i_id = :item_2 \gset
UPDATE tpcc_stock SET s_quantity = s_quantity - :quantity_2 + CASE WHEN s_quantity - :quantity_2 >= 10 THEN 0 ELSE 91 END, s_ytd = s_ytd + :quantity_2, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + CASE WHEN s_w_id = :w_id THEN 0 ELSE 1 END WHERE s_w_id = :from_2 AND s_i_id = :item_2;
INSERT INTO tpcc_order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d, ol_quantity, ol_amount, ol_dist_info) SELECT CAST(:o_id AS int), CAST(:d_id AS int), CAST(:w_id AS int), 2, s_i_id, s_w_id, NULL, CAST(:quantity_2 AS int), CAST(:quantity_2 AS int) * CAST(:price AS numeric), (ARRAY[s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07, s_dist_08, s_dist_09, s_dist_10])[CAST(:d_id AS int)] FROM tpcc_stock WHERE s_w_id = :from_2 AND s_i_id = :item_2;
SELECT i_price AS price, i_name, i_data FROM tpcc_item WHERE i_id = :item_3 \gset
UPDATE tpcc_stock SET s_quantity = s_quantity - :quantity_3 + CASE WHEN s_quantity - :quantity_3 >= 10 THEN 0 ELSE 91 END, s_ytd = s_ytd + :quantity_3, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + CASE WHEN s_w_id = :w_id THEN 0 ELSE 1 END WHERE s_w_id = :from_3 AND s_i_id = :item_3;
INSERT INTO tpcc_order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d, ol_quantity, ol_amount, ol_dist_info) SELECT CAST(:o_id AS int), CAST(:d_id AS int), CAST(:w_id AS int), 3, s_i_id, s_w_id, NULL, CAST(:quantity_3 AS int), CAST(:quantity_3 AS int) * CAST(:price AS numeric), (ARRAY[s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07, s_dist_08, s_dist_09, s_dist_10])[CAST(:d_id AS int)] FROM tpcc_stock WHERE s_w_id = :from_3 AND s_i_id = :item_3;
SELECT i_price AS price, i_name, i_data FROM tpcc_item WHERE i_id = :item_4 \gset
UPDATE tpcc_stock SET s_quantity = s_quantity - :quantity_4 + CASE WHEN s_quantity - :quantity_4 >= 10 THEN 0 ELSE 91 END, s_ytd = s_ytd + :quantity_4, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + CASE WHEN s_w_id = :w_id THEN 0 ELSE 1 END WHERE s_w_id = :from_4 AND s_i_id = :item_4;
INSERT INTO tpcc_order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d, ol_quantity, ol_amount, ol_dist_info) SELECT CAST(:o_id AS int), CAST(:d_id AS int), CAST(:w_id AS int), 4, s_i_id, s_w_id, NULL, CAST(:quantity_4 AS int), CAST(:quantity_4 AS int) * CAST(:price AS numeric), (ARRAY[s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07, s_dist_08, s_dist_09, s_dist_10])[CAST(:d_id AS int)] FROM tpcc_stock WHERE s_w_id = :from_4 AND s_i_id = :item_4;
SELECT i_price AS price, i_name, i_data FROM tpcc_item WHERE i_id = :item_5 \gset
UPDATE tpcc_stock SET s_quantity = s_quantity - :quantity_5 + CASE WHEN s_quantity - :quantity_5 >= 10 THEN 0 ELSE 91 END, s_ytd = s_ytd + :quantity_5, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + CASE WHEN s_w_id = :w_id THEN 0 ELSE 1 END WHERE s_w_id = :from_5 AND s_i_id = :item_5;
INSERT INTO tpcc_order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d, ol_quantity, ol_amount, ol_dist_info) SELECT CAST(:o_id AS int), CAST(:d_id AS int), CAST(:w_id AS int), 5, s_i_id, s_w_id, NULL, CAST(:quantity_5 AS int), CAST(:quantity_5 AS int) * CAST(:price AS numeric), (ARRAY[s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07, s_dist_08, s_dist_09, s_dist_10])[CAST(:d_id AS int)] FROM tpcc_stock WHERE s_w_id = :from_5 AND s_i_id = :item_5;
\if :lines >= 6
SELECT i_price AS price, i_name, i_data FROM tpcc_item WHERE i_id = :item_6 \gset
UPDATE tpcc_stock SET s_quantity = s_quantity - :quantity_6 + CASE WHEN s_quantity - :quantity_6 >= 10 THEN 0 ELSE 91 END, s_ytd = s_ytd + :quantity_6, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + CASE WHEN s_w_id = :w_id THEN 0 ELSE 1 END WHERE s_w_id = :from_6 AND s_i_id = :item_6;
INSERT INTO tpcc_order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d, ol_quantity, ol_amount, ol_dist_info) SELECT CAST(:o_id AS int), CAST(:d_id AS int), CAST(:w_id AS int), 6, s_i_id, s_w_id, NULL, CAST(:quantity_6 AS int), CAST(:quantity_6 AS int) * CAST(:price AS numeric), (ARRAY[s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07, s_dist_08, s_dist_09, s_dist_10])[CAST(:d_id AS int)] FROM tpcc_stock WHERE s_w_id = :from_6 AND s_i_id = :item_6;
\endif
\if :lines >= 7
SELECT i_price AS price, i_name, i_data FROM tpcc_item WHERE i_id = :item_7 \gset
UPDATE tpcc_stock SET s_quantity = s_quantity - :quantity_7 + CASE WHEN s_quantity - :quantity_7 >= 10 THEN 0 ELSE 91 END, s_ytd = s_ytd + :quantity_7, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + CASE WHEN s_w_id = :w_id THEN 0 ELSE 1 END WHERE s_w_id = :from_7 AND s_i_id = :item_7;
INSERT INTO tpcc_order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d, ol_quantity, ol_amount, ol_dist_info) SELECT CAST(:o_id AS int), CAST(:d_id AS int), CAST(:w_id AS int), 7, s_i_id, s_w_id, NULL, CAST(:quantity_7 AS int), CAST(:quantity_7 AS int) * CAST(:price AS numeric), (ARRAY[s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07, s_dist_08, s_dist_09, s_dist_10])[CAST(:d_id AS int)] FROM tpcc_stock WHERE s_w_id = :from_7 AND s_i_id = :item_7;
\endif
\if :lines >= 8
SELECT i_price AS price, i_name, i_data FROM tpcc_item WHERE i_id = :item_8 \gset
UPDATE tpcc_stock SET s_quantity = s_quantity - :quantity_8 + CASE WHEN s_quantity - :quantity_8 >= 10 THEN 0 ELSE 91 END, s_ytd = s_ytd + :quantity_8, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + CASE WHEN s_w_id = :w_id THEN 0 ELSE 1 END WHERE s_w_id = :from_8 AND s_i_id = :item_8;
INSERT INTO tpcc_order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d, ol_quantity, ol_amount, ol_dist_info) SELECT CAST(:o_id AS int), CAST(:d_id AS int), CAST(:w_id AS int), 8, s_i_id, s_w_id, NULL, CAST(:quantity_8 AS int), CAST(:quantity_8 AS int) * CAST(:price AS numeric), (ARRAY[s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07, s_dist_08, s_dist_09, s_dist_10])[CAST(:d_id AS int)] FROM tpcc_stock WHERE s_w_id = :from_8 AND s_i_id = :item_8;
\endif
\if :lines >= 9
SELECT i_price AS price, i_name, i_data FROM tpcc_item WHERE i_id = :item_9 \gset
UPDATE tpcc_stock SET s_quantity = s_quantity - :quantity_9 + CASE WHEN s_quantity - :quantity_9 >= 10 THEN 0 ELSE 91 END, s_ytd = s_ytd + :quantity_9, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + CASE WHEN s_w_id = :w_id THEN 0 ELSE 1 END WHERE s_w_id = :from_9 AND s_i_id = :item_9;
INSERT INTO tpcc_order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d, ol_quantity, ol_amount, ol_dist_info) SELECT CAST(:o_id AS int), CAST(:d_id AS int), CAST(:w_id AS int), 9, s_i_id, s_w_id, NULL, CAST(:quantity_9 AS int), CAST(:quantity_9 AS int) * CAST(:price AS numeric), (ARRAY[s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07, s_dist_08, s_dist_09, s_dist_10])[CAST(:d_id AS int)] FROM tpcc_stock WHERE s_w_id = :from_9 AND s_i_id = :item_9;
\endif
\if :lines >= 10
SELECT i_price AS price, i_name, i_data FROM tpcc_item WHERE i_id = :item_10 \gset
UPDATE tpcc_stock SET s_quantity = s_quantity - :quantity_10 + CASE WHEN s_quantity - :quantity_10 >= 10 THEN 0 ELSE 91 END, s_ytd = s_ytd + :quantity_10, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + CASE WHEN s_w_id = :w_id THEN 0 ELSE 1 END WHERE s_w_id = :from_10 AND s_i_id = :item_10;
INSERT INTO tpcc_order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d, ol_quantity, ol_amount, ol_dist_info) SELECT CAST(:o_id AS int), CAST(:d_id AS int), CAST(:w_id AS int), 10, s_i_id, s_w_id, NULL, CAST(:quantity_10 AS int), CAST(:quantity_10 AS int) * CAST(:price AS numeric), (ARRAY[s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07, s_dist_08, s_dist_09, s_dist_10])[CAST(:d_id AS int)] FROM tpcc_stock WHERE s_w_id = :from_10 AND s_i_id = :item_10;
\endif
\if :lines >= 11
SELECT i_price AS price, i_name, i_data FROM tpcc_item WHERE i_id = :item_11 \gset
UPDATE tpcc_stock SET s_quantity = s_quantity - :quantity_11 + CASE WHEN s_quantity - :quantity_11 >= 10 THEN 0 ELSE 91 END, s_ytd = s_ytd + :quantity_11, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + CASE WHEN s_w_id = :w_id THEN 0 ELSE 1 END WHERE s_w_id = :from_11 AND s_i_id = :item_11;
INSERT INTO tpcc_order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d, ol_quantity, ol_amount, ol_dist_info) SELECT CAST(:o_id AS int), CAST(:d_id AS int), CAST(:w_id AS int), 11, s_i_id, s_w_id, NULL, CAST(:quantity_11 AS int), CAST(:quantity_11 AS int) * CAST(:price AS numeric), (ARRAY[s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07, s_dist_08, s_dist_09, s_dist_10])[CAST(:d_id AS int)] FROM tpcc_stock WHERE s_w_id = :from_11 AND s_i_id = :item_11;
\endif
\if :lines >= 12
SELECT i_price AS price, i_name, i_data FROM tpcc_item WHERE i_id = :item_12 \gset
UPDATE tpcc_stock SET s_quantity = s_quantity - :quantity_12 + CASE WHEN s_quantity - :quantity_12 >= 10 THEN 0 ELSE 91 END, s_ytd = s_ytd + :quantity_12, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + CASE WHEN s_w_id = :w_id THEN 0 ELSE 1 END WHERE s_w_id = :from_12 AND s_i_id = :item_12;
INSERT INTO tpcc_order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d, ol_quantity, ol_amount, ol_dist_info) SELECT CAST(:o_id AS int), CAST(:d_id AS int), CAST(:w_id AS int), 12, s_i_id, s_w_id, NULL, CAST(:quantity_12 AS int), CAST(:quantity_12 AS int) * CAST(:price AS numeric), (ARRAY[s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07, s_dist_08, s_dist_09, s_dist_10])[CAST(:d_id AS int)] FROM tpcc_stock WHERE s_w_id = :from_12 AND s_i_id = :item_12;
\endif
\if :lines >= 13
SELECT i_price AS price, i_name, i_data FROM tpcc_item WHERE i_id = :item_13 \gset
UPDATE tpcc_stock SET s_quantity = s_quantity - :quantity_13 + CASE WHEN s_quantity - :quantity_13 >= 10 THEN 0 ELSE 91 END, s_ytd = s_ytd + :quantity_13, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + CASE WHEN s_w_id = :w_id THEN 0 ELSE 1 END WHERE s_w_id = :from_13 AND s_i_id = :item_13;
INSERT INTO tpcc_order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d, ol_quantity, ol_amount, ol_dist_info) SELECT CAST(:o_id AS int), CAST(:d_id AS int), CAST(:w_id AS int), 13, s_i_id, s_w_id, NULL, CAST(:quantity_13 AS int), CAST(:quantity_13 AS int) * CAST(:price AS numeric), (ARRAY[s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07, s_dist_08, s_dist_09, s_dist_10])[CAST(:d_id AS int)] FROM tpcc_stock WHERE s_w_id = :from_13 AND s_i_id = :item_13;
\endif
\if :lines >= 14
SELECT i_price AS price, i_name, i_data FROM tpcc_item WHERE i_id = :item_14 \gset
UPDATE tpcc_stock SET s_quantity = s_quantity - :quantity_14 + CASE WHEN s_quantity - :quantity_14 >= 10 THEN 0 ELSE 91 END, s_ytd = s_ytd + :quantity_14, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + CASE WHEN s_w_id = :w_id THEN 0 ELSE 1 END WHERE s_w_id = :from_14 AND s_i_id = :item_14;
INSERT INTO tpcc_order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d, ol_quantity, ol_amount, ol_dist_info) SELECT CAST(:o_id AS int), CAST(:d_id AS int), CAST(:w_id AS int), 14, s_i_id, s_w_id, NULL, CAST(:quantity_14 AS int), CAST(:quantity_14 AS int) * CAST(:price AS numeric), (ARRAY[s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07, s_dist_08, s_dist_09, s_dist_10])[CAST(:d_id AS int)] FROM tpcc_stock WHERE s_w_id = :from_14 AND s_i_id = :item_14;
\endif
\if :lines >= 15
SELECT i_price AS price, i_name, i_data FROM tpcc_item WHERE i_id = :item_15 \gset
UPDATE tpcc_stock SET s_quantity = s_quantity - :quantity_15 + CASE WHEN s_quantity - :quantity_15 >= 10 THEN 0 ELSE 91 END, s_ytd = s_ytd + :quantity_15, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + CASE WHEN s_w_id = :w_id THEN 0 ELSE 1 END WHERE s_w_id = :from_15 AND s_i_id = :item_15;
INSERT INTO tpcc_order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d, ol_quantity, ol_amount, ol_dist_info) SELECT CAST(:o_id AS int), CAST(:d_id AS int), CAST(:w_id AS int), 15, s_i_id, s_w_id, NULL, CAST(:quantity_15 AS int), CAST(:quantity_15 AS int) * CAST(:price AS numeric), (ARRAY[s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07, s_dist_08, s_dist_09, s_dist_10])[CAST(:d_id AS int)] FROM tpcc_stock WHERE s_w_id = :from_15 AND s_i_id = :item_15;
\endif
-- One order in a hundred names an item that there is not, and is taken back.
\if :unused_item
SELECT i_price FROM tpcc_item WHERE i_id = -1;
ROLLBACK;
\else
END;
\endif
