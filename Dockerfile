# syntax=docker/dockerfile:1
# Two stages: the first builds wheels, the second holds an interpreter and what was built.
FROM python:3.13-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY throttler throttler
COPY activator activator
RUN python -m venv /opt/activator && /opt/activator/bin/pip install --no-cache-dir .

FROM python:3.13-slim
COPY --from=build /opt/activator /opt/activator
ENV PATH=/opt/activator/bin:$PATH PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
EXPOSE 8012 8013 8080 9090
ENTRYPOINT ["activator"]
CMD ["run"]
