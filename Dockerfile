# poolscope without a Python of one's own. The network is needed to build it, and never to run it:
#   docker build -t poolscope .
#   docker run --rm --network none -v "$PWD:/work" --user "$(id -u):$(id -g)" poolscope audit apple-emojis
FROM python:3.13-slim-trixie AS build
WORKDIR /source
COPY . .
RUN python -m venv /opt/poolscope && /opt/poolscope/bin/pip install --no-cache-dir '.[explore,figures]'

FROM python:3.13-slim-trixie
COPY --from=build /opt/poolscope /opt/poolscope
# any user may compile kernels, and keeps them for later runs with a volume at /cache
RUN useradd --create-home --uid 10001 poolscope && install -d -o poolscope -m 1777 /cache /work
ENV PATH=/opt/poolscope/bin:$PATH HOME=/tmp NUMBA_CACHE_DIR=/cache
USER 10001
WORKDIR /work
ENTRYPOINT ["poolscope"]
CMD ["--help"]
