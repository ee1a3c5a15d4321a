drop table if exists autocommit_probe;

create table autocommit_probe (
    id bigint generated always as identity primary key,
    client_id int not null,
    payload text not null,
    inserted_at timestamptz not null default pg_catalog.now()
);
