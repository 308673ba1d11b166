# The server, run by a user without rights; its files are in /data. docs/operations.md tells how to start it.
FROM python:3.13-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml setup.py README.md LICENSE deploy/requirements.txt ./
COPY checkpoints checkpoints
COPY dsl_compiler dsl_compiler
COPY ragflow_lg ragflow_lg
COPY server server
# Every file is checked against its hash. The build tool comes first, because pip would fetch one without a hash.
RUN python -m venv /opt/ragflow-lg \
    && sed -n '/^setuptools==/,/[^\\]$/p' requirements.txt > build.txt \
    && /opt/ragflow-lg/bin/pip install --no-cache-dir --quiet --require-hashes -r build.txt \
    && /opt/ragflow-lg/bin/pip install --no-cache-dir --quiet --require-hashes --no-deps --no-build-isolation -r requirements.txt \
    && /opt/ragflow-lg/bin/pip install --no-cache-dir --quiet --no-index --no-deps --no-build-isolation . \
    && /opt/ragflow-lg/bin/python -m compileall -q /opt/ragflow-lg/lib

FROM python:3.13-slim-bookworm
# CodeExec's sandbox. Its version is that of the distribution, which updates it.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends bubblewrap && rm -rf /var/lib/apt/lists/*
RUN groupadd --gid 10001 ragflow && useradd --uid 10001 --gid 10001 --no-create-home --shell /usr/sbin/nologin ragflow \
    && install --directory --owner=10001 --group=10001 --mode=0700 /data
COPY --from=build /opt/ragflow-lg /opt/ragflow-lg
ENV PATH=/opt/ragflow-lg/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    MALLOC_ARENA_MAX=2 \
    MALLOC_TRIM_THRESHOLD_=131072 \
    RAGFLOW_LG_SERVER__HOST=0.0.0.0 \
    RAGFLOW_LG_SERVER__LOG_FORMAT=json \
    RAGFLOW_LG_SERVER__LOG_LEVEL=info
WORKDIR /data
VOLUME /data
USER 10001:10001
EXPOSE 9380
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9380/health', timeout=2)"]
ENTRYPOINT ["ragflow-lg"]
CMD ["serve"]
