\if :partial_index
create index idx_events_user_time on events (user_id, "timestamp" desc) where type operator(pg_catalog.=) 'critical';
\endif

vacuum analyze events;
