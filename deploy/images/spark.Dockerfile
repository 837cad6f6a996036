# Spark with the very Python and packages of the controller: a job's driver and its workers must not differ in them.
# Context: the repository, after `make dist`.
FROM python:3.11-slim-bookworm
RUN apt-get update \
 && apt-get install -y --no-install-recommends openjdk-17-jre-headless procps \
 && rm -rf /var/lib/apt/lists/* \
 && groupadd --system --gid 10001 stormpilot \
 && useradd --system --no-log-init --uid 10001 --gid 10001 --home-dir /var/lib/stormpilot --shell /usr/sbin/nologin stormpilot \
 && install -d -o stormpilot -g stormpilot /var/lib/stormpilot /var/cache/stormpilot /etc/stormpilot \
 && python -m venv /opt/stormpilot
ENV PATH=/opt/stormpilot/bin:$PATH PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
COPY dist/requirements-history.txt /tmp/
RUN pip install --require-hashes --no-deps -r /tmp/requirements-history.txt
COPY dist/stormpilot-*.whl /tmp/
RUN pip install --no-deps /tmp/stormpilot-*.whl
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 NUMBA_CACHE_DIR=/var/cache/stormpilot \
    PYSPARK_PYTHON=/opt/stormpilot/bin/python SPARK_WORKER_DIR=/var/cache/stormpilot/spark
USER 10001:10001
WORKDIR /var/lib/stormpilot
VOLUME ["/var/lib/stormpilot", "/var/cache/stormpilot"]
CMD ["spark-class", "org.apache.spark.deploy.master.Master", "--host", "spark-master"]
