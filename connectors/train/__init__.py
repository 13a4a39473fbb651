"""Learning logs in shards: which parts of files a shard reads, and what is shown meanwhile."""
