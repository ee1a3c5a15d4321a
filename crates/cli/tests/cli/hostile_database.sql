-- A database whose owner wants a superuser's rights: whatever a session calls by a name
-- without its schema, or with other types than those that pg_catalog has, is the owner's.
-- All of it tells of itself in canary.fired and, since that may be rolled back, in the log.

CREATE ROLE mallory LOGIN PASSWORD 'mM1';
ALTER DATABASE hostile OWNER TO mallory;
CREATE SCHEMA evil AUTHORIZATION mallory;
CREATE SCHEMA canary;
GRANT USAGE ON SCHEMA canary TO PUBLIC;
CREATE TABLE canary.fired (what text);
GRANT ALL ON canary.fired TO PUBLIC;

CREATE FUNCTION canary.fire(what text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE LOG 'CANARY %', what;
    INSERT INTO canary.fired VALUES (what);
EXCEPTION WHEN OTHERS THEN
    NULL;
END $$;
CREATE FUNCTION canary.value(what text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM canary.fire(what);
    RETURN true;
END $$;
CREATE FUNCTION canary.planned(what text) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
    PERFORM canary.fire(what);
    RETURN true;
END $$;
CREATE FUNCTION canary.event() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM canary.fire('event trigger');
END $$;
CREATE FUNCTION canary.row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM canary.fire('trigger');
    RETURN NEW;
END $$;

SET check_function_bodies = off;

-- Every function of pg_catalog once more, and with arguments of any type in any number
-- that it takes.
DO $do$
DECLARE
    f record;
    place text;
    body text;
    made bigint := 0;
BEGIN
    FOR f IN
        SELECT p.proname, pg_get_function_identity_arguments(p.oid) AS arguments,
               p.proretset AS is_set, format_type(p.prorettype, NULL) AS result,
               p.prokind AS kind
        FROM pg_proc p
        WHERE p.pronamespace = 'pg_catalog'::regnamespace AND (p.prokind = 'f' OR p.prokind = 'a' AND p.pronargs > 0)
          AND NOT EXISTS (SELECT FROM unnest(p.proargtypes || p.prorettype) t (oid)
                          JOIN pg_type USING (oid) WHERE typtype = 'p' AND typname NOT IN
                          ('void', 'record', 'anyelement', 'anyarray', 'anynonarray', 'anycompatible',
                           'anycompatiblearray'))
          AND p.provariadic = 0 AND p.proname !~ '^(RI_|pg_stat_get_backend_idset)'
    LOOP
        FOREACH place IN ARRAY ARRAY['evil', 'public'] LOOP
            body := format($f$ BEGIN PERFORM canary.fire(%L); RETURN%s; END $f$,
                           f.proname, CASE WHEN f.is_set OR f.result = 'void' THEN '' ELSE ' NULL' END);
            BEGIN
                EXECUTE format('CREATE FUNCTION %I.%I(%s) RETURNS %s %s LANGUAGE plpgsql AS %L',
                    place, f.proname, f.arguments,
                    CASE WHEN f.is_set THEN 'SETOF' ELSE '' END, f.result, body);
                made := made + 1;
            EXCEPTION WHEN OTHERS THEN
                NULL;
            END;
        END LOOP;
    END LOOP;
    FOR f IN
        SELECT DISTINCT p.proname, n AS arguments FROM pg_proc p
        CROSS JOIN generate_series(1, 4) n
        WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind IN ('f', 'a')
          AND (p.pronargs = n OR p.provariadic <> 0)
    LOOP
        FOREACH place IN ARRAY ARRAY['evil', 'public'] LOOP
            BEGIN
                EXECUTE format('CREATE FUNCTION %I.%I(%s) RETURNS anycompatible LANGUAGE plpgsql AS %L',
                    place, f.proname, (SELECT string_agg('anycompatible', ',') FROM generate_series(1, f.arguments)),
                    format('BEGIN PERFORM canary.fire(%L); RETURN $1; END', f.proname));
                made := made + 1;
            EXCEPTION WHEN OTHERS THEN
                NULL;
            END;
        END LOOP;
    END LOOP;
    IF made < 4000 THEN
        RAISE EXCEPTION 'only % functions', made;
    END IF;
END $do$;

-- The example of the advisory: arguments that fit better than pg_catalog's.
CREATE FUNCTION public.concat_ws(text, bigint, bigint) RETURNS text LANGUAGE plpgsql AS
    $$ BEGIN PERFORM canary.fire('concat_ws'); RETURN ''; END $$;

-- Aggregates, which are called like functions but made otherwise.
DO $do$
DECLARE place text;
BEGIN
    FOREACH place IN ARRAY ARRAY['evil', 'public'] LOOP
        EXECUTE format('CREATE FUNCTION %I.step(bigint) RETURNS bigint LANGUAGE plpgsql AS
            $f$ BEGIN PERFORM canary.fire(''count''); RETURN 0; END $f$', place);
        EXECUTE format('CREATE AGGREGATE %1$I.count(*) (sfunc = %1$I.step, stype = bigint, initcond = 0)', place);
    END LOOP;
END $do$;

-- Every operator once more, and for types that pg_catalog has to convert first.
DO $do$
DECLARE
    o record;
    place text;
    made bigint := 0;
BEGIN
    EXECUTE 'CREATE FUNCTION evil.any2(anycompatible, anycompatible) RETURNS boolean LANGUAGE plpgsql AS
        $f$ BEGIN PERFORM canary.fire(''operator''); RETURN true; END $f$';
    FOR o IN
        SELECT DISTINCT oprname AS name, format_type(l.oid, NULL) AS "left", format_type(r.oid, NULL) AS "right"
        FROM pg_operator CROSS JOIN pg_type l CROSS JOIN pg_type r
        WHERE oprname IN ('=', '<>', '<', '>', '<=', '>=', '+', '-', '*', '/', '%', '||', '~', '!~', '~~',
                          '!~~', '~*', '~~*', '->', '->>', '@>')
          AND l.typname IN ('int2', 'int4', 'int8', 'text', 'varchar', 'name', 'bpchar', 'char', 'oid', 'bool',
                            'float8', 'numeric', 'timestamptz', 'interval', 'pg_lsn', 'regclass', 'jsonb', 'uuid',
                            '_text', '_oid', '_int4', '_int8', 'xid', 'int2vector')
          AND r.typname IN ('int2', 'int4', 'int8', 'text', 'varchar', 'name', 'bpchar', 'char', 'oid', 'bool',
                            'float8', 'numeric', 'timestamptz', 'interval', 'pg_lsn', 'regclass', 'jsonb', 'uuid',
                            '_text', '_oid', '_int4', '_int8', 'xid', 'int2vector')
          AND (l.oid = r.oid OR l.typcategory = r.typcategory OR 'text' IN (l.typname, r.typname))
    LOOP
        FOREACH place IN ARRAY ARRAY['evil', 'public'] LOOP
            BEGIN
                EXECUTE format('CREATE FUNCTION %I.o(%s, %s) RETURNS boolean LANGUAGE plpgsql AS
                    $f$ BEGIN PERFORM canary.fire(''operator''); RETURN true; END $f$', place, o."left", o."right");
            EXCEPTION WHEN duplicate_function THEN
                NULL;
            END;
            EXECUTE format('CREATE OPERATOR %I.%s (leftarg = %s, rightarg = %s, function = %I.o)',
                place, o.name, o."left", o."right", place);
            made := made + 1;
        END LOOP;
    END LOOP;
    IF made < 4000 THEN
        RAISE EXCEPTION 'only % operators', made;
    END IF;
END $do$;

-- A view in front of every catalog, and types that call something when a value is made.
DO $do$
DECLARE
    c record;
BEGIN
    FOR c IN
        SELECT relname FROM pg_class
        WHERE relnamespace = 'pg_catalog'::regnamespace AND relkind IN ('r', 'v')
    LOOP
        BEGIN
            EXECUTE format('CREATE VIEW evil.%I AS SELECT * FROM pg_catalog.%I WHERE canary.value(%L)',
                           c.relname, c.relname, 'view ' || c.relname);
        EXCEPTION WHEN invalid_table_definition THEN
            -- A column of pg_statistic has a type that no view can have.
            NULL;
        END;
    END LOOP;
    FOR c IN
        SELECT unnest(ARRAY['text', 'name', 'oid', 'int2', 'int4', 'int8', 'float4', 'float8', 'bool', 'uuid',
                            'regclass', 'regnamespace', 'jsonb', 'pg_lsn', 'timestamptz', 'date']) AS relname
    LOOP
        EXECUTE format('CREATE DOMAIN evil.%I AS pg_catalog.%I CHECK (canary.value(%L))',
                       c.relname, c.relname, 'type ' || c.relname);
    END LOOP;
END $do$;

-- A workload's tables, with something behind them.
CREATE TABLE public.pgbench_branches (bid int PRIMARY KEY, bbalance int, filler char(88));
CREATE TABLE public.pgbench_tellers (tid int PRIMARY KEY, bid int, tbalance int, filler char(84));
CREATE TABLE public.pgbench_accounts (aid int PRIMARY KEY, bid int, abalance int, filler char(84));
CREATE TABLE public.pgbench_history (tid int, bid int, aid int, delta int, mtime timestamp, filler char(22));
INSERT INTO public.pgbench_branches VALUES (1, 0);
CREATE TRIGGER t BEFORE INSERT OR UPDATE OR DELETE ON public.pgbench_branches
    FOR EACH ROW EXECUTE FUNCTION canary.row();
CREATE TRIGGER t BEFORE INSERT ON public.pgbench_history FOR EACH ROW EXECUTE FUNCTION canary.row();
ALTER TABLE public.pgbench_branches OWNER TO mallory;
ALTER TABLE public.pgbench_tellers OWNER TO mallory;
ALTER TABLE public.pgbench_accounts OWNER TO mallory;
ALTER TABLE public.pgbench_history OWNER TO mallory;
GRANT CREATE ON SCHEMA public TO mallory;

-- Statements of others that a plan might be made of.
CREATE FUNCTION evil.folded() RETURNS int IMMUTABLE LANGUAGE plpgsql AS
    $$ BEGIN PERFORM canary.fire('planned'); RETURN 1; END $$;
CREATE TABLE public.parted (id int, day int) PARTITION BY LIST (day);
GRANT SELECT ON public.parted TO mallory;
CREATE TABLE public.parted_1 PARTITION OF public.parted FOR VALUES IN (1);

-- A partitioned table whose name is in every text, so that every statement is one about it.
CREATE TABLE public.a (id int) PARTITION BY LIST (id);

-- Tables of a superuser, on which others may put triggers.
CREATE SCHEMA mart;
CREATE TABLE mart.autocommit_probe (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, client_id int NOT NULL,
    payload text NOT NULL, inserted_at timestamptz NOT NULL DEFAULT pg_catalog.now());
GRANT ALL ON mart.autocommit_probe TO mallory;
CREATE TRIGGER t BEFORE INSERT ON mart.autocommit_probe FOR EACH ROW EXECUTE FUNCTION canary.row();

-- An index that its owner wants back as it was.
CREATE TABLE public.noted (n text);
INSERT INTO public.noted VALUES ('N');
CREATE INDEX noted_n ON public.noted (lower(n));
DO $do$
BEGIN
    EXECUTE 'CREATE OR REPLACE FUNCTION evil.lower(pg_catalog.text) RETURNS pg_catalog.text IMMUTABLE LANGUAGE plpgsql AS
        $f$ BEGIN PERFORM canary.fire(''lower''); RETURN $1; END $f$';
END $do$;
DO $do$
DECLARE
    c record;
BEGIN
    -- What a planner may call while it only plans.
    FOR c IN SELECT relname FROM pg_class WHERE relnamespace = 'evil'::regnamespace AND relkind = 'v' LOOP
        EXECUTE format('CREATE OR REPLACE VIEW evil.%I AS SELECT * FROM pg_catalog.%I WHERE canary.planned(%L)',
                       c.relname, c.relname, 'planned view ' || c.relname);
    END LOOP;
END $do$;
