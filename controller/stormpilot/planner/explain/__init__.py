"""Why executors are where a plan has them."""
