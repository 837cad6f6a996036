/**
 * Topologies that tests and the benchmark run on real clusters: {@code
 * stormpilot-worker-*-topologies.jar}.
 */
package io.stormpilot.worker.topology;
