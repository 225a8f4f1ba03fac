# syntax=docker/dockerfile:1
# Two stages. The first installs the packages of requirements.lock and a compiled wheel of this
# project into a virtual environment. The second has an interpreter and that environment.
# `make image-proof` executes these instructions without a container engine.

# A full version with the digest of its index, which has amd64 and arm64. So builds are repeatable.
# Renovate proposes newer ones. Another image: docker build --build-arg PYTHON_IMAGE=… .
ARG PYTHON_IMAGE=python:3.13.15-slim-bookworm@sha256:ed86c82274b3c69b52fb5820f358f0bd7df0b603332063cb5c6e32bd220c3e6e

FROM ${PYTHON_IMAGE} AS build
WORKDIR /src
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
COPY requirements.lock requirements-build.lock ./
# Only wheels with a known hash. Of these, mypy and setuptools run during the build.
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
COPY docs/reasons docs/reasons
COPY docs/runbooks docs/runbooks
COPY docs/how-to/why-is-my-service-not-scaled.md docs/how-to/
ENV ACTIVATOR_COMPILE=1
RUN pip --python /opt/build/bin/python3 wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
    && pip --python /opt/activator/bin/python3 install --no-deps --no-index /wheels/*.whl

FROM ${PYTHON_IMAGE}
LABEL org.opencontainers.image.title="activator" \
      org.opencontainers.image.description="The buffering load balancer in front of services that scale to zero" \
      org.opencontainers.image.version="0.2.0" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/activator /opt/activator
# The first stage has compiled all modules to bytecode, so Python need not write any at run time.
# The user has no entry in /etc/passwd; with HOME, Python does not look for one.
ENV PATH=/opt/activator/bin:/usr/local/bin:/usr/bin:/bin \
    HOME=/nonexistent PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
# A number, so that Kubernetes can check that the user is not root.
USER 65532:65532
EXPOSE 8012 8013 8112 8008 9090
STOPSIGNAL SIGTERM
ENTRYPOINT ["activator"]
CMD ["run"]
