# The package with the extra for scoring: docker build --tag probes . (docs/install.md)
FROM python:3.11-slim
WORKDIR /opt/probes
COPY . .
RUN pip install --no-cache-dir '.[score]' -c constraints.txt
WORKDIR /work
CMD ["probes", "--help"]
