# The service alone (docs/how-to/serve.md#in-a-container): docker build -t medlink .
FROM python:3.13-slim AS build
WORKDIR /source
COPY LICENSE MANIFEST.in README.md constraints.txt pyproject.toml setup.cfg ./
COPY medlink medlink
RUN python -m venv /opt/medlink
RUN /opt/medlink/bin/python -m pip install -q --no-cache-dir -c constraints.txt ".[cpu]"

FROM python:3.13-slim
COPY --from=build /opt/medlink /opt/medlink
ENV PATH="/opt/medlink/bin:$PATH" PYTHONDONTWRITEBYTECODE="1"
USER 10001:10001
EXPOSE 8000
HEALTHCHECK CMD ["python", "-c", "import httpx; httpx.get('http://localhost:8000/health').raise_for_status()"]
ENTRYPOINT ["medlink", "serve"]
CMD ["/bundle", "--host", "0.0.0.0", "--port", "8000", "--token", "/run/secrets/token", "--allow-host", "localhost"]
