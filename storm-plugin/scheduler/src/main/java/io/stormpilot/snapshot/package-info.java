/**
 * What the controller learns of Storm: the cluster and each topology as the scheduler sees them,
 * built off the scheduling thread and written when they changed.
 */
package io.stormpilot.snapshot;
