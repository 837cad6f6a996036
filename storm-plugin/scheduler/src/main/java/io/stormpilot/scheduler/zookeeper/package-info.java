/** All that touches ZooKeeper, on threads of its own: never on the thread that schedules. */
package io.stormpilot.scheduler.zookeeper;
