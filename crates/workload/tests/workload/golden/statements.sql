-- A comment before everything
\set a 5
\set b :a * 2 \
  + 1
   SELECT :a::int + :b::int; SELECT 2; -- trailing
SELECT :a::int -- inner
  , 'it''s; fine' , $$;$$, $q$ $$ ; $q$, e'a\'; b' /* ; c1 */ AS x
  ;
/* leading comment */ SELECT
	:b::text AS "odd;name", (SELECT 1 WHERE :a::int = 5);
SELECT 'first'
  ', continued;' AS y;
CREATE OR REPLACE FUNCTION golden_f() RETURNS int LANGUAGE sql BEGIN ATOMIC SELECT 1; SELECT CASE WHEN true THEN 2 END; END;
SELECT golden_f() AS f, 4 AS g \gset r_
SELECT :r_f::int + :r_g::int
\set c 1
\if :c = 1
SELECT 10;
\elif :c = 3
SELECT 11;
\else
SELECT 12;
\endif
\if :c = 2
SELECT 20;
\elif false or :c = 1
  \if :c isnull
  SELECT 21;
  \else
  SELECT 22;
  \endif
\else
SELECT 23;
\endif
\SET D 0.5
SELECT :D::float8, :c::int # 1, (ARRAY[1,2,3])[:c::int : 2] , 1::int;
SELECT 1 AS z \gset
SELECT 5 AS "n" \aset p_
SELECT :p_n::int;
-- comment, then a last statement without semicolon and a comment after it
SELECT 'last' -- end
