vacuum pgbench_branches;
vacuum pgbench_tellers;
truncate pgbench_history;
