"""Programs for people who work on this repository; nothing of them is installed."""
