package io.stormpilot.scheduler.round;

import org.apache.storm.scheduler.DefaultScheduler;
import org.apache.storm.scheduler.IScheduler;
import org.apache.storm.scheduler.IsolationScheduler;
import org.apache.storm.scheduler.multitenant.MultitenantScheduler;
import org.apache.storm.scheduler.resource.ResourceAwareScheduler;

/** Storm's schedulers, each of which may be the fallback. */
enum StormsOwn {
  DEFAULT,
  RESOURCE_AWARE,
  ISOLATION,
  MULTITENANT;

  IScheduler scheduler() {
    return switch (this) {
      case DEFAULT -> new DefaultScheduler();
      case RESOURCE_AWARE -> new ResourceAwareScheduler();
      case ISOLATION -> new IsolationScheduler();
      case MULTITENANT -> new MultitenantScheduler();
    };
  }
}
