truncate autocommit_probe;
