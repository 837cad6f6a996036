#!/bin/sh
# Writes storm.yaml: what all hosts share, then what this one is by its environment. Ends as the base image would go on.
set -eu
{
  cat /opt/stormpilot/storm.yaml
  echo "storm.local.hostname: \"$(hostname)\""
  echo "supervisor.cpu.capacity: ${STORM_CPU_POINTS:-200}"
  echo "supervisor.memory.capacity.mb: ${STORM_MEMORY_MB:-2048}"
  echo "supervisor.scheduler.meta: {site: \"${STORM_SITE:-}\", rack: \"${STORM_RACK:-/default-rack}\"}"
} >"${STORM_CONF_DIR:-/conf}/storm.yaml"
exec /docker-entrypoint.sh "$@"
