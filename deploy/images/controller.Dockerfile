# The controller and the command line. Context: the repository, after `make dist`.
FROM python:3.11-slim-bookworm
RUN groupadd --system --gid 10001 stormpilot \
 && useradd --system --no-log-init --uid 10001 --gid 10001 --home-dir /var/lib/stormpilot --shell /usr/sbin/nologin stormpilot \
 && install -d -o stormpilot -g stormpilot /var/lib/stormpilot /var/cache/stormpilot /etc/stormpilot /run/stormpilot \
 && python -m venv /opt/stormpilot
ENV PATH=/opt/stormpilot/bin:$PATH PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
COPY dist/requirements-controller.txt /tmp/
RUN pip install --require-hashes --no-deps -r /tmp/requirements-controller.txt
COPY dist/stormpilot-*.whl /tmp/
RUN pip install --no-deps /tmp/stormpilot-*.whl
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 NUMBA_CACHE_DIR=/var/cache/stormpilot
USER 10001:10001
WORKDIR /var/lib/stormpilot
# Planners are compiled once, here; on a machine with another CPU they compile again when the controller starts.
RUN stormpilot planners --compile
COPY topologies /opt/stormpilot/topologies
VOLUME ["/var/lib/stormpilot", "/var/cache/stormpilot"]
EXPOSE 8470
# It may compile planners for some minutes before it leads: a volume keeps those of the version before.
HEALTHCHECK --interval=5s --timeout=10s --start-period=10m --retries=3 \
  CMD ["python", "-m", "stormpilot.api.probe", "/etc/stormpilot/controller.yaml"]
CMD ["stormpilot", "run", "/etc/stormpilot/controller.yaml"]
