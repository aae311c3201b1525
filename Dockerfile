# One image for every participant. It holds no key: each container makes its own when it starts.
FROM python:3.11-slim-bookworm AS build
RUN python3 -m venv /opt/build && python3 -m venv --without-pip /opt/venv
WORKDIR /build
COPY requirements-run.txt ./
# Besides the program's packages, requirements-run.txt has those that build it. These stay in /opt/build.
RUN /opt/build/bin/pip download --quiet --no-cache-dir --only-binary=:all: --require-hashes --dest /wheels -r requirements-run.txt \
 && /opt/build/bin/pip install --quiet --no-index --find-links /wheels editables hatchling
COPY . ./
RUN /opt/build/bin/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir /wheels . \
 && /opt/build/bin/pip --python /opt/venv/bin/python3 install --quiet --no-index --find-links /wheels masquerade

FROM python:3.11-slim-bookworm
# The base image brings pip along. Nothing is installed into a container, so it goes; /opt/venv has none.
RUN cd /usr/local/lib && rm -rf python3*/ensurepip python3*/site-packages/pip* python3*/site-packages/setuptools* \
      python3*/site-packages/wheel* /usr/lib/python3*/ensurepip /usr/lib/python3/dist-packages/pip* /usr/local/bin/pip* /usr/bin/pip*
COPY --from=build /opt/venv /opt/venv
# Sticky and open to all, because the user is chosen when the container starts.
RUN mkdir -m 1777 /keys /meeting /runs /state
ENV PATH=/opt/venv/bin:$PATH \
    HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
# REVISION is the commit, where the one who builds gives it.
ARG VERSION=0.1.0
ARG REVISION=""
LABEL org.opencontainers.image.title="masquerade" \
      org.opencontainers.image.description="Several data owners and an untrusted curator learn one classifier together; nobody sees anybody's records." \
      org.opencontainers.image.licenses="GPL-3.0-or-later" \
      org.opencontainers.image.vendor="masquerade developers" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.base.name="python:3.11-slim-bookworm"
USER 1000:1000
ENTRYPOINT ["masquerade"]
CMD ["--help"]
