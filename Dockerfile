# docker build -t streamk .
# docker build -t streamk --build-arg EXTRAS=parquet,confluent .
# docker run --rm -v "$PWD:/data" streamk replay log.csv --target label
FROM python:3.13-slim AS build
WORKDIR /source
ARG EXTRAS=
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY streamk streamk
COPY connectors connectors
RUN python -m venv /opt/streamk \
    && PIP_CONSTRAINT=/source/constraints.txt /opt/streamk/bin/pip install --no-cache-dir ".${EXTRAS:+[$EXTRAS]}"

FROM python:3.13-slim
COPY --from=build /opt/streamk /opt/streamk
# A volume at /cache keeps compiled code for later containers; any user may write it.
RUN useradd --create-home --uid 1000 streamk \
    && install -d -m 1777 /cache /data
USER 1000
WORKDIR /data
ENV PATH=/opt/streamk/bin:$PATH NUMBA_CACHE_DIR=/cache
VOLUME /cache
ENTRYPOINT ["streamk"]
CMD ["--help"]
