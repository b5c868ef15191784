"""The real docker CLI against the reader of its command lines: a stand-in daemon records what is sent, nothing is started."""

from __future__ import annotations

import json
import os
import random
import shutil
import socketserver
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gpumap_widgets.layers.base import Recognised
from gpumap_widgets.layers.containers_commands import ROWS
from gpumap_widgets.layers.containers_flag import Request
from gpumap_widgets.layers.containers_images import environment_of, matters
from gpumap_widgets.layers.containers_requests import requests_of
from gpumap_widgets.layers.words import Word
from gpumap_widgets.mapping import Message
from tests.test_containers import GPUS, REFUSED

pytestmark = [
    pytest.mark.tool,
    pytest.mark.skipif(shutil.which("docker") is None, reason="the docker CLI is not installed"),
]


class _Daemon(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Answers like dockerd until a container is to be created, which it records and refuses."""

    daemon_threads = True
    seen: list[dict[str, Any]]

    def get_request(self) -> tuple[Any, Any]:
        connection, _ = super().get_request()
        return connection, ("socket", 0)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Daemon

    def log_message(self, *_: object) -> None:
        pass

    def answer(self, code: int, body: bytes) -> None:
        self.send_response(code)
        headers = {"Content-Type": "application/json", "Api-Version": "1.44", "Ostype": "linux", "Connection": "close"}
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self) -> None:
        self.answer(200, b"OK" if "_ping" in self.path else b"{}")

    do_HEAD = do_GET

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if "/containers/create" in self.path or self.path.endswith("/exec"):
            self.server.seen.append(json.loads(body))
        self.answer(418, b'{"message": "recorded"}')


class Cli(NamedTuple):
    """The docker command with a daemon that records."""

    daemon: _Daemon
    home: str

    def sends(self, *args: str, env: Mapping[str, str] | None = None) -> dict[str, Any] | str:
        """What it asks the daemon to create; what it says where it refuses the command line itself."""
        self.daemon.seen.clear()
        variables = {
            "PATH": os.environ["PATH"],
            "HOME": self.home,
            "DOCKER_HOST": f"unix://{self.daemon.server_address}",
        }
        done = subprocess.run(
            ["docker", *args], env={**variables, **(env or {})}, capture_output=True, text=True, timeout=60, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        return self.daemon.seen[0] if self.daemon.seen else done.stderr


@pytest.fixture(scope="module")
def cli() -> Iterator[Cli]:
    with tempfile.TemporaryDirectory(prefix="gm-") as home, _Daemon(str(Path(home) / "d"), _Handler) as daemon:
        daemon.seen = []
        threading.Thread(target=daemon.serve_forever, daemon=True).start()
        yield Cli(daemon, home)
        daemon.shutdown()


def read(*args: str, files: Mapping[str, str] | None = None) -> Recognised:
    recognise = ROWS["docker"].recognise
    assert recognise is not None
    return recognise(tuple(map(Word, ("docker", *args))), {"files": dict(files or {})})


def as_request(sent: Mapping[str, Any]) -> Request:
    return Request(sent["Count"], tuple(sent["DeviceIDs"] or ()), sent["Driver"], tuple(sent["Capabilities"][0]))


def compare(cli: Cli, args: list[str], env: Mapping[str, str], files: Mapping[str, str]) -> None:
    """What the CLI sends is what the layer says."""
    sent = cli.sends("run", *args, env=env)
    known = read("run", *args, files=files)
    options = known.layers[0].options
    assert isinstance(sent, dict), (args, sent)
    host = sent["HostConfig"]
    requests = requests_of(options)
    assert not isinstance(requests, Message)
    cdi = [one for row in host["DeviceRequests"] or () if row["Driver"] == "cdi" for one in row["DeviceIDs"]]
    assert requests == [as_request(row) for row in host["DeviceRequests"] or () if row["Driver"] != "cdi"], args
    assert [name for name in options.get("devices", ()) if not name.startswith("/")] == cdi
    nodes = [name.split(":")[0] for name in options.get("devices", ()) if name.startswith("/")]
    assert nodes == [row["PathOnHost"] for row in host["Devices"] or ()]
    assert options.get("runtime", "") == (host.get("Runtime") or "")
    assert bool(options.get("privileged")) == host["Privileged"]
    entries = [entry.partition("=") for entry in sent["Env"] or ()]
    wanted = {name: value if equals else None for name, equals, value in entries if matters(name)}
    assert environment_of(options, env) == wanted, args
    assert [word.text for word in known.rest] == [*filter(None, sent["Entrypoint"] or ()), *(sent["Cmd"] or ())], args
    assert options.get("image") == sent["Image"]
    assert "unrecognised" not in options, args


@pytest.mark.parametrize(("value", "request_"), GPUS, ids=str)
def test_gpus(cli: Cli, value: str, request_: Request) -> None:
    sent = cli.sends("run", "--gpus", value, "img")
    assert isinstance(sent, dict), sent
    assert as_request(sent["HostConfig"]["DeviceRequests"][0]) == request_


@pytest.mark.parametrize(("value", "why"), REFUSED, ids=str)
def test_refused_gpus(cli: Cli, value: str, why: str) -> None:
    said = cli.sends("run", "--gpus", value, "img")
    assert isinstance(said, str)
    assert why.rpartition("column")[2].rpartition(":")[2].strip() in said


PIECES: tuple[tuple[str, ...], ...] = (
    ("--gpus", "all"), ("--gpus=1",), ("--gpus", '"device=0,2"'), ("--gpus", "device=2,0"), ("--gpus", '"device=1",capabilities=utility'),
    ("--device", "nvidia.com/gpu=1"), ("--device=/dev/nvidia0",), ("--device", "/dev/nvidia1:/dev/nvidia0:rwm"),
    ("--runtime=nvidia",), ("--runtime", "nvidia"), ("--privileged",), ("--privileged=false",),
    ("-e", "CUDA_VISIBLE_DEVICES=1"), ("-e", "CUDA_VISIBLE_DEVICES"), ("-eCUDA_VISIBLE_DEVICES=2",), ("--env", "CUDA_DEVICE_ORDER=PCI_BUS_ID"),
    ("--env=CUDA_DEVICE_ORDER",), ("-e", "NVIDIA_VISIBLE_DEVICES=0,1"), ("-e", "CUDA_VISIBLE_DEVICES="), ("-e", "CUDA_X=a=b"),
    ("--env-file", "one.env"), ("--env-file=two.env",), ("--entrypoint", "torchrun"), ("--entrypoint=",),
    ("-i",), ("--rm",), ("--ipc=host",), ("--shm-size", "8g"), ("-v", "/a:/b"), ("--mount", "type=tmpfs,target=/x"),
    ("-p80:80",), ("--name", "n"), ("-u", "0:0"), ("-w", "/w"), ("--net", "host"), ("--network=host",), ("-l", "a=b"), ("--ulimit", "memlock=-1"),
    ("-m4g",), ("--memory", "4g"), ("--cpus=2",), ("--cpuset-cpus", "0-3"), ("--init",), ("--pull", "never"), ("--security-opt", "label=disable"),
    ("--cap-add=SYS_PTRACE",), ("--add-host", "a:1.2.3.4"), ("--restart", "no"), ("--log-opt", "a=b"), ("--group-add", "video"), ("--read-only",),
    ("-h", "host"), ("--tmpfs", "/t"), ("--pid=host",), ("--platform", "linux/amd64"), ("--stop-timeout", "3"), ("-c", "512"), ("--quiet",),
)  # fmt: skip
"""Options, as words."""
FILES = {
    "one.env": "# c\nCUDA_VISIBLE_DEVICES=3\n  CUDA_DEVICE_ORDER\n\nOTHER=1\n",
    "two.env": "\ufeffCUDA_DEVICE_ORDER=PCI_BUS_ID  \nCUDA_A=$X #b\n",
}
COMMANDS = ((), ("python", "t.py"), ("bash", "-c", "x $Y"), ("python", "--gpus", "1", "-e", "A=1"))
ENVIRONMENTS: tuple[dict[str, str], ...] = (
    {},
    {"CUDA_VISIBLE_DEVICES": "2", "CUDA_DEVICE_ORDER": "FASTEST_FIRST"},
    {"CUDA_VISIBLE_DEVICES": ""},
)


@pytest.mark.parametrize("seed", range(40))
def test_generated_command_lines(cli: Cli, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    dice = random.Random(seed)
    pieces = dice.sample(PIECES, dice.randrange(1, 9))
    if len({piece for piece in pieces if piece[0].startswith("--net")}) > 1:
        pieces = [piece for piece in pieces if piece[0] != "--net"]
    args = [word for piece in pieces for word in piece]
    compare(cli, [*args, "img", *dice.choice(COMMANDS)], dice.choice(ENVIRONMENTS), FILES)


def test_every_option_has_the_arity_that_the_cli_gives_it(cli: Cli) -> None:
    """Each of the pieces alone."""
    for piece in PIECES:
        if not piece[0].startswith("--env-file"):
            compare(cli, [*piece, "img", "python", "t.py"], ENVIRONMENTS[1], FILES)


def test_the_order_of_the_host_changes_nothing(cli: Cli) -> None:
    sent = [
        cli.sends("run", "--gpus", "device=1", "img", env={"CUDA_DEVICE_ORDER": order})
        for order in ("FASTEST_FIRST", "PCI_BUS_ID")
    ]
    assert isinstance(sent[0], dict)
    assert sent[0] == sent[1]


def test_a_command_in_a_container(cli: Cli) -> None:
    args = ["exec", "-e", "CUDA_VISIBLE_DEVICES", "-e", "CUDA_DEVICE_ORDER=PCI_BUS_ID", "c", "python", "t.py"]
    sent = cli.sends(*args, env=ENVIRONMENTS[1])
    known = read(*args)
    assert isinstance(sent, dict)
    assert dict(entry.split("=", 1) for entry in sent["Env"]) == environment_of(
        known.layers[0].options, ENVIRONMENTS[1]
    )
    assert [word.text for word in known.rest] == sent["Cmd"]
