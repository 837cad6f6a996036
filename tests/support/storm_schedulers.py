"""Class names of Storm's schedulers that a plug-in may fall back to."""

from __future__ import annotations

RAS = "org.apache.storm.scheduler.resource.ResourceAwareScheduler"
DEFAULT = "org.apache.storm.scheduler.DefaultScheduler"
