# Storm with the scheduler plug-in (for Nimbus), Python with stormpilot and the workers' jar (for supervisors).
# Context: the repository, after `make dist`.
FROM storm:2.8
USER root
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3 python3-venv \
 && rm -rf /var/lib/apt/lists/* \
 && python3 -c "import sys; assert sys.version_info >= (3, 11), sys.version" \
 && python3 -m venv /opt/stormpilot
COPY dist/requirements-worker.txt dist/requirements-examples.txt /tmp/
RUN /opt/stormpilot/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes --no-deps \
      -r /tmp/requirements-worker.txt -r /tmp/requirements-examples.txt
COPY dist/stormpilot-*.whl /tmp/
RUN /opt/stormpilot/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps /tmp/stormpilot-*.whl
# Below Storm's home, the working directory of the base image.
COPY dist/stormpilot-scheduler-*.jar extlib-daemon/
COPY dist/stormpilot-worker-*.jar extlib/
COPY deploy/images/storm.yaml /opt/stormpilot/storm.yaml
COPY deploy/images/storm-entrypoint.sh /usr/local/bin/
# Components are started with this interpreter and the stormpilot_run beside it.
ENV PATH=/opt/stormpilot/bin:$PATH
USER storm
ENTRYPOINT ["storm-entrypoint.sh"]
