"""Runs the Milvus server of the Python package `milvus`, for tests and for trying things out.

    python tests/python/milvus_server.py --data DIR [--port PORT] [--fresh] [--stay]

One machine runs one such server: some of its ports cannot be chosen. Prints `ready PORT PID` once it answers. Takes lines on standard input: `kill` (SIGKILL),
`start [KEY=VALUE ...]` (settings of milvus.yaml), `stop`; at the end of the
input the server is stopped, so that it never outlives the program that started it.
"""

import argparse
import pathlib
import shutil
import signal
import socket
import sys
import time
import urllib.request

import milvus

START_SECONDS = 180

# Settings of milvus.yaml that the package's template lacks: how often the nodes are told to load graphs that were built, in
# milliseconds, and segments that were flushed, in seconds. A load waits for both; by default either comes every ten seconds.
QUERY_COORDINATOR = {"checkIndexInterval": 1000, "updateNextTargetInterval": 1}


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


class Config(milvus.MilvusServerConfig):
    def __init__(self, **settings):
        super().__init__(**settings)
        lines = "".join(f"\n  {name}: {value}" for name, value in QUERY_COORDINATOR.items())
        self.template_text = self.template_text.replace("\nqueryCoord:", f"\nqueryCoord:{lines}", 1)

    def try_bind_port(self, port):
        # As the package does, and also where connections of a killed server have not timed out yet.
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(("127.0.0.1", port))
        except OSError:
            return None
        return sock


def is_healthy(port):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5) as answer:
            return b"OK" in answer.read()
    except OSError:
        return False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="where the server keeps its program, its data and its logs")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--fresh", action="store_true", help="forget the data of before")
    parser.add_argument("--stay", action="store_true", help="take no input, end when interrupted")
    options = parser.parse_args()

    folder = pathlib.Path(options.data).absolute()
    if options.fresh:
        for old in ("data", "logs"):
            shutil.rmtree(folder / old, ignore_errors=True)
    port = options.port or free_port()
    config = Config(data_dir=str(folder), proxy_port=port)
    server = milvus.MilvusServer(config, wait_for_started=False)

    def start():
        server.start()
        until = time.monotonic() + START_SECONDS
        while not is_healthy(server.webservice_port):
            ended = server.server_proc.poll() is not None
            if time.monotonic() > until:
                what = "ended; does another one run on this machine?" if ended else "does not answer."
                sys.exit(f"the server {what} Waited {START_SECONDS} s, see {folder / 'logs'}")
            if ended:
                # The server of a run that was stopped may still be ending.
                time.sleep(2)
                server.server_proc = None
                server.start()
            time.sleep(0.2)
        print(f"ready {port} {server.server_proc.pid}", flush=True)

    # A stopped test run ends its group by SIGTERM, which the server itself takes minutes to obey.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    try:
        start()
        if options.stay:
            signal.pause()
        for line in sys.stdin:
            if line.strip() == "kill":
                server.server_proc.kill()
                server.server_proc.wait()
                server.server_proc = None
                print("killed", flush=True)
            elif line.startswith("start"):
                config.extra_configs = dict(setting.split("=", 1) for setting in line.split()[1:])
                start()
            elif line.strip() == "stop":
                break
    except KeyboardInterrupt:
        pass
    finally:
        server.stop()


if __name__ == "__main__":
    main()
