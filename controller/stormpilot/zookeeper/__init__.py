"""ZooKeeper: the client, and the names of our znodes."""
