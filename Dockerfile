# evenreel as a server of a library: search, hearing, measuring and audits, without torch. See docs/docker.md.
FROM python:3.11-slim AS made
WORKDIR /source
RUN python -m venv /evenreel
COPY pyproject.toml constraints.txt README.md LICENSE MANIFEST.in ./
COPY src src
RUN /evenreel/bin/pip install --no-cache-dir -c constraints.txt ".[measure,meaning,speech]"

FROM python:3.11-slim
COPY --from=made /evenreel /evenreel
# Models that are fetched, stills and snapshots lie with the library, so that one volume keeps all.
ENV PATH=/evenreel/bin:$PATH \
    EVENREEL_LIBRARY=/library/evenreel \
    HF_HOME=/library/models-of-the-hub \
    XDG_CACHE_HOME=/library/cache \
    PYTHONUNBUFFERED=1
RUN useradd --uid 1000 --create-home evenreel && mkdir /library && chown evenreel:evenreel /library
USER evenreel
VOLUME /library
EXPOSE 8765
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8765/api/v1/health', timeout=4)"]
ENTRYPOINT ["evenreel"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8765"]
