-- pgbench's tables. From scale 20,000 an account number needs 64 bits.
drop table if exists pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers;

\if :scale >= 20000
create table pgbench_history(tid int,bid int,aid bigint,delta int,mtime timestamp,filler char(22));
create table pgbench_tellers(tid int not null,bid int,tbalance int,filler char(84)) with (fillfactor=100);
create table pgbench_accounts(aid bigint not null,bid int,abalance int,filler char(84)) with (fillfactor=100);
create table pgbench_branches(bid int not null,bbalance int,filler char(88)) with (fillfactor=100);
\else
create table pgbench_history(tid int,bid int,aid    int,delta int,mtime timestamp,filler char(22));
create table pgbench_tellers(tid int not null,bid int,tbalance int,filler char(84)) with (fillfactor=100);
create table pgbench_accounts(aid    int not null,bid int,abalance int,filler char(84)) with (fillfactor=100);
create table pgbench_branches(bid int not null,bbalance int,filler char(88)) with (fillfactor=100);
\endif
