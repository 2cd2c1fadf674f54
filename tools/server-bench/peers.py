"""File servers that bench-files compares, each with one thread and its own cache of files."""

import getpass
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from bench import CLIENT_CORE, Server

PACKAGES = {"nginx": "nginx-light", "h2o": "h2o", "caddy": "caddy", "h2load": "nghttp2-client"}
CACHE_PACKAGES = {"nginx": "nginx-light", "varnishd": "varnish", "h2load": "nghttp2-client"}

# The path of objects that an origin has.
CACHED = "/cached"
CACHE_BYTES = 256 << 20

NGINX = """
worker_processes 1;
master_process off;
daemon off;
pid {work}/nginx.pid;
error_log {work}/nginx-error.log;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    sendfile on;
    gzip_static on;
    types {{ text/html html; }}
    open_file_cache max=1000;
    open_file_cache_errors on;
    keepalive_requests 1000000000;
    client_body_temp_path {work}/nginx-body;
    server {{
        listen 127.0.0.1:{port} ssl http2;
        ssl_certificate {cert};
        ssl_certificate_key {key};
        root {root};
    }}
}}
"""

NGINX_ORIGIN = """
worker_processes 1;
master_process off;
daemon off;
pid {work}/origin.pid;
error_log {work}/origin-error.log;
events {{ worker_connections 1024; }}
http {{
    access_log {work}/origin.log;
    sendfile on;
    types {{ text/html html; }}
    client_body_temp_path {work}/origin-body;
    server {{
        listen 127.0.0.1:{origin_port};
        location /cached/ {{
            alias {root}/stored/;
            add_header cache-control max-age=3600;
        }}
    }}
}}
"""

NGINX_CACHE = """
worker_processes 1;
master_process off;
daemon off;
pid {work}/nginx.pid;
error_log {work}/nginx-error.log;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    sendfile on;
    open_file_cache max=1000;
    keepalive_requests 1000000000;
    client_body_temp_path {work}/nginx-body;
    proxy_temp_path {work}/nginx-proxy;
    proxy_cache_path {work}/nginx-cache keys_zone=cache:10m max_size={cache_bytes} use_temp_path=off;
    server {{
        listen 127.0.0.1:{port} ssl http2;
        ssl_certificate {cert};
        ssl_certificate_key {key};
        location / {{
            proxy_pass http://127.0.0.1:{origin_port};
            proxy_cache cache;
        }}
    }}
}}
"""

VARNISH = """
vcl 4.1;
backend default {{ .host = "127.0.0.1"; .port = "{origin_port}"; }}
"""

EDGE_SERVER = """
[[host]]
[[host.origin]]
path = "/cached/**"
url = "http://127.0.0.1:{origin_port}"
cache = true
"""

H2O = """
user: {user}
num-threads: 1
pid-file: {work}/h2o.pid
error-log: {work}/h2o-error.log
listen: {{ host: 127.0.0.1, port: {port}, ssl: {{ certificate-file: {cert}, key-file: {key} }} }}
hosts:
  default:
    paths:
      /: {{ file.dir: {root}, file.send-compressed: ON }}
"""

CADDY = """
{{
    admin off
    default_sni localhost
    auto_https off
    log {{
        level ERROR
    }}
}}
https://:{port} {{
    bind 127.0.0.1
    tls {cert} {key}
    root * {root}
    file_server {{
        precompressed br zstd gzip
    }}
}}
"""


@dataclass
class Site:
    """What every server serves, and where it may write."""

    root: Path
    cert: Path
    key: Path
    work: Path
    port: int

    @property
    def origin_port(self):
        return self.port + 1


def check(packages=None):
    """Exits if a peer is missing."""
    missing = [package for program, package in (packages or PACKAGES).items() if not find(program)]
    if missing:
        sys.exit(f"error: peers are missing: sudo apt-get install {' '.join(missing)}")


def find(program):
    return shutil.which(program) or shutil.which(program, path="/usr/sbin:/sbin")


def edge_server(site, release, *options, cache=64 << 20):
    command = [release / "edge-server", "--workers=1", "--tcp=on", "--speedtest", "--drain=0", "--root", site.root]
    command += ["--listen", f"127.0.0.1:{site.port}", "--cert", site.cert, "--key", site.key]
    command += ["--file-cache-max", cache, *options]
    return Server("edge-server", command, site.port, "")


def nginx(site):
    return Server("nginx", [find("nginx"), "-p", site.work, "-c", write(site, "nginx.conf", NGINX)], site.port, "")


def nginx_origin(site):
    """Returns the origin of caches, which logs its requests."""
    command = [find("nginx"), "-p", site.work, "-c", write(site, "origin.conf", NGINX_ORIGIN)]
    return Server("origin", command, site.origin_port, "", scheme="http", core=CLIENT_CORE)


def edge_server_cache(site, release):
    config = write(site, "edge.toml", EDGE_SERVER)
    return edge_server(site, release, "--cache-memory-max", CACHE_BYTES, "--config", config)


def nginx_cache(site):
    command = [find("nginx"), "-p", site.work, "-c", write(site, "nginx-cache.conf", NGINX_CACHE)]
    return Server("nginx", command, site.port, "")


def varnish(site):
    """Returns Varnish, which has no TLS."""
    command = [find("varnishd"), "-F", "-j", "none", "-n", site.work / "varnish", "-a", f"127.0.0.1:{site.port}"]
    command += ["-f", write(site, "varnish.vcl", VARNISH), "-s", f"malloc,{CACHE_BYTES}"]
    return Server("Varnish", command, site.port, "", scheme="http")


def h2o(site):
    return Server("h2o", [find("h2o"), "-c", write(site, "h2o.yaml", H2O)], site.port, "")


def caddy(site):
    config = write(site, "Caddyfile", CADDY)
    return Server("Caddy", [find("caddy"), "run", "--adapter", "caddyfile", "--config", config], site.port, "")


def write(site, name, template):
    path = site.work / name
    more = {"user": getpass.getuser(), "origin_port": site.origin_port, "cache_bytes": CACHE_BYTES}
    path.write_text(template.format(**more, **vars(site)))
    return path
