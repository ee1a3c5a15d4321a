\set a 5
SELECT ':a', ":a", $$:a$$, :a, ':nope', '10:30', 1 FROM (SELECT 7 AS "5") t;
SELECT 1 AS i \; SELECT 2 AS j \; SELECT 3 AS i WHERE false \aset
SELECT :i + :j;
