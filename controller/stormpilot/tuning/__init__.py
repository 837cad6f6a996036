"""Where a mined number takes effect: effective thresholds and recommended planners."""
