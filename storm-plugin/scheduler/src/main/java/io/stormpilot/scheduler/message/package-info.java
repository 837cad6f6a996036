/**
 * What passes through ZooKeeper: values, their JSON, and the limits of a znode. The Python twin of
 * these messages is {@code controller/stormpilot/messages/}; {@code tests/contract/*.json} is read
 * by both.
 */
package io.stormpilot.scheduler.message;
