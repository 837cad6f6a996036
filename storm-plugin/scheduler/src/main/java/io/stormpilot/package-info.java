/** The scheduler that Nimbus loads, {@link io.stormpilot.PilotScheduler}; its parts are below. */
package io.stormpilot;
