# syntax=docker/dockerfile:1
# Two stages: the first installs what requirements.lock names and a compiled wheel of this project
# into a virtual environment; the second holds an interpreter and that environment. `make image-proof`
# follows these instructions without a container engine.

# A full version, so that a build tomorrow is this one. Who publishes the image pins it harder:
#   docker build --build-arg PYTHON_IMAGE=python@sha256:… .
ARG PYTHON_IMAGE=python:3.13.7-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
WORKDIR /src
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
COPY requirements.lock requirements-build.lock ./
# Wheels only, and only those with a known hash. Of these, mypy and setuptools run while building.
RUN python3 -m venv --without-pip /opt/activator \
    && pip --python /opt/activator/bin/python3 install --only-binary :all: --require-hashes -r requirements.lock \
    && python3 -m venv --without-pip /opt/build \
    && pip --python /opt/build/bin/python3 install --only-binary :all: --require-hashes -r requirements-build.lock
# The compiled build needs a C compiler; Python's headers are in the base image.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
COPY pyproject.toml setup.py README.md LICENSE ./
COPY backend backend
COPY throttler throttler
COPY activator activator
ENV ACTIVATOR_COMPILE=1
RUN pip --python /opt/build/bin/python3 wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
    && pip --python /opt/activator/bin/python3 install --no-deps --no-index /wheels/*.whl

FROM ${PYTHON_IMAGE}
LABEL org.opencontainers.image.title="activator" \
      org.opencontainers.image.description="The buffering load balancer in front of services that scale to zero" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/activator /opt/activator
# Nothing is written at run time, so nothing is tried: modules were compiled by the first stage.
# The user has no entry in /etc/passwd; HOME keeps Python from looking for one.
ENV PATH=/opt/activator/bin:/usr/local/bin:/usr/bin:/bin \
    HOME=/nonexistent PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
# By number, so that Kubernetes can tell that it is not root.
USER 65532:65532
EXPOSE 8012 8013 8112 8008 9090
STOPSIGNAL SIGTERM
ENTRYPOINT ["activator"]
CMD ["run"]
