"""Messages that pass through ZooKeeper: one definition per message, read by Python and Java alike."""
