# One image for every participant. It holds no key: each container makes its own when it starts.
FROM python:3.11-slim-bookworm AS build
RUN python3 -m venv /opt/venv
WORKDIR /build
COPY requirements-run.txt ./
RUN /opt/venv/bin/pip install --no-cache-dir --require-hashes -r requirements-run.txt
COPY . ./
RUN /opt/venv/bin/pip install --no-cache-dir --no-deps --no-build-isolation .

FROM python:3.11-slim-bookworm
COPY --from=build /opt/venv /opt/venv
# Sticky and open to all, because the user is chosen when the container starts.
RUN mkdir -m 1777 /keys /meeting /runs /state
ENV PATH=/opt/venv/bin:$PATH \
    HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 1000:1000
CMD ["masquerade", "--help"]
