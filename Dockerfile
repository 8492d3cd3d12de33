# poolscope without a Python of one's own. Building needs the network, running does not:
#   docker build -t poolscope .
#   docker run --rm --network none -v "$PWD:/work" --user "$(id -u):$(id -g)" poolscope audit apple-emojis
# --build-arg EXTRAS=[figures] adds what svg, png and pdf files need.
FROM python:3.13-slim-trixie AS build
ARG EXTRAS=""
WORKDIR /source
COPY . .
RUN python -m venv --without-pip /opt/poolscope \
    && python -m pip --python /opt/poolscope/bin/python install --no-cache-dir ".${EXTRAS}"

FROM python:3.13-slim-trixie
COPY --from=build /opt/poolscope /opt/poolscope
# kernels are compiled at the first run: a volume at /cache keeps them for the next ones of the same user
RUN useradd --create-home --uid 10001 poolscope && install -d -o poolscope -m 1777 /cache /work
ENV PATH=/opt/poolscope/bin:$PATH HOME=/tmp NUMBA_CACHE_DIR=/cache
USER 10001
WORKDIR /work
ENTRYPOINT ["poolscope"]
CMD ["--help"]
