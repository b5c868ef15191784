"""Command lines of Docker, Podman and nerdctl, read into layers."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from ..scenario import Layer
from .base import LayerRow, Recognised
from .containers import apply_docker, believed_docker
from .containers_images import entrypoint_of, facts, given, image_env
from .containers_podman import NERDCTL, PODMAN, apply_exec, apply_nerdctl, apply_podman, believed_podman
from .containers_requests import CLI, DAEMON
from .options import Option, Options, Parsed
from .words import Word

_GLOBAL = Options(
    [
        Option("--config --context -c --host -H --log-level -l --tlscacert --tlscert --tlskey"),
        Option("--debug -D --tls --tlsverify", 0),
        # Podman and nerdctl
        Option(
            "--root --runroot --runtime --storage-driver --storage-opt --url --connection --identity --cgroup-manager"
        ),
        Option("--hooks-dir --module --network-config-dir --tmpdir --volumepath --events-backend --conmon"),
        Option("--namespace -n --address -a --snapshotter --cni-path --cni-netconfpath --data-root --host-gateway-ip"),
        Option("--remote -r --syslog --noout --insecure-registry --experimental --debug-full", 0),
    ]
)
_RUN = [
    Option("--gpus", key="gpus"),
    Option("--device", key="device"),
    Option("--runtime", key="runtime"),
    Option("--env -e", key="env"),
    Option("--env-file", key="env_file"),
    Option("--entrypoint", key="entrypoint"),
    Option("--privileged", 0, key="privileged"),
    Option("--detach -d --disable-content-trust --help --init --interactive -i --no-healthcheck --oom-kill-disable", 0),
    Option("--publish-all -P --quiet -q --read-only --rm --sig-proxy --tty -t --use-api-socket", 0),
    Option("--add-host --annotation --attach -a --blkio-weight --blkio-weight-device --cap-add --cap-drop"),
    Option("--cgroup-parent --cgroupns --cidfile --cpu-count --cpu-percent --cpu-period --cpu-quota --cpu-rt-period"),
    Option("--cpu-rt-runtime --cpu-shares -c --cpus --cpuset-cpus --cpuset-mems --detach-keys --device-cgroup-rule"),
    Option("--device-read-bps --device-read-iops --device-write-bps --device-write-iops --dns --dns-option --dns-opt"),
    Option("--dns-search --domainname --expose --group-add --health-cmd --health-interval --health-retries"),
    Option("--health-start-interval --health-start-period --health-timeout --hostname -h --io-maxbandwidth"),
    Option("--io-maxiops --ip --ip6 --ipc --isolation --kernel-memory --label -l --label-file --link --link-local-ip"),
    Option("--log-driver --log-opt --mac-address --memory -m --memory-reservation --memory-swap --memory-swappiness"),
    Option("--mount --name --network --net --network-alias --net-alias --oom-score-adj --pid --pids-limit --platform"),
    Option("--publish -p --pull --restart --security-opt --shm-size --stop-signal --stop-timeout --storage-opt"),
    Option(
        "--sysctl --tmpfs --ulimit --user -u --userns --uts --volume -v --volume-driver --volumes-from --workdir -w"
    ),
]
"""Options of ``docker run`` 28.2.2."""
_MORE = [
    Option("--env-host", 0, key="env_host"),
    Option("--unsetenv", key="unset"),
    Option("--unsetenv-all", 0, key="unset_all"),
    Option("--http-proxy --no-hosts --no-hostname --passwd --read-only-tmpfs --replace --rmi --rootfs --tls-verify", 0),
    Option("--arch --os --variant --authfile --cert-dir --chrootdirs --conmon-pidfile --creds --decryption-key"),
    Option("--env-merge --gidmap --uidmap --subgidname --subuidname --group-entry --passwd-entry --hostuser"),
    Option("--health-log-destination --health-max-log-count --health-max-log-size --health-on-failure"),
    Option("--health-startup-cmd --health-startup-interval --health-startup-retries --health-startup-success"),
    Option("--health-startup-timeout --image-volume --init-ctr --init-path --personality --pidfile --pod"),
    Option("--pod-id-file --preserve-fd --preserve-fds --rdt-class --requires --retry --retry-delay --sdnotify"),
    Option("--seccomp-policy --secret --shm-size-systemd --systemd --timeout --tz --umask"),
]
"""Those that Podman 5 adds."""
_DOCKER_RUN, _PODMAN_RUN = Options(_RUN), Options([*_RUN, *_MORE])
_EXEC = Options(
    [
        Option("--env -e", key="env"),
        Option("--env-file", key="env_file"),
        Option("--detach -d --interactive -i --tty -t --privileged --latest -l", 0),
        Option("--detach-keys --user -u --workdir -w --preserve-fd --preserve-fds --cidfile"),
    ]
)
_FACTS = {"toolkit": "toolkit", "docker": "docker", "podman": "podman", "nerdctl": "nerdctl", "docker_daemon": "daemon"}
"""Facts from outside → options of the layer."""


def _recognise(words: tuple[Word, ...], assume: Mapping[str, Any]) -> Recognised:
    """``docker run`` and what behaves like it; other commands of Docker start nothing that uses a GPU."""
    program = words[0].text.rpartition("/")[2]
    kind = {"podman": "podman", "nerdctl": "nerdctl"}.get(program, "docker")
    rest = _GLOBAL.parse(words[1:]).rest
    if rest and rest[0].text == "container":
        rest = rest[1:]
    command = rest[0].text if rest else ""
    if command in ("run", "create"):
        layer, rest = _run(kind, _parsed(_PODMAN_RUN if kind == "podman" else _DOCKER_RUN, rest[1:]), assume)
        if program == "nvidia-docker":
            layer = Layer("docker", {"runtime": "nvidia", **layer.options, "nv_gpu": True})
        return Recognised((layer,), rest)
    if command == "exec":
        return _exec(kind, _EXEC.parse(rest[1:]), assume)
    return Recognised((), idle=True)


def _parsed(table: Options, words: tuple[Word, ...]) -> Parsed:
    """A command line taken apart. An empty word in the place of the image is a variable that is not set, which a shell
    would leave out: what stands behind it is read on.
    """
    found = table.parse(words)
    while found.rest and found.rest[0] == Word(""):
        skip = next((i for i, word in enumerate(found.rest) if word != Word("")), len(found.rest))
        more = table.parse(found.rest[skip:])
        keys = dict.fromkeys((*found.values, *more.values))
        values = {key: (*found.values.get(key, ()), *more.values.get(key, ())) for key in keys}
        found = Parsed(values, more.rest, (*found.unrecognised, *more.unrecognised))
    return found


def _run(kind: str, found: Parsed, assume: Mapping[str, Any]) -> tuple[Layer, tuple[Word, ...]]:
    """The layer of a command line, and the command that runs inside."""
    values = found.values
    options: dict[str, Any] = {
        "gpus": tuple(word.text for word in values.get("gpus", ()) if not word.unknown),
        "unknown_gpus": any(word.unknown for word in values.get("gpus", ())),
        "devices": tuple(word.text for word in values.get("device", ()) if "nvidia" in word.text or "=" in word.text),
        "privileged": switched_on(found, "privileged"),
        "env_host": switched_on(found, "env_host"),
        "unset": tuple(word.text for word in values.get("unset", ())),
        "unset_all": switched_on(found, "unset_all"),
        "image": found.rest[0].text if found.rest else "",
        **given(values.get("env", ()), values.get("env_file", ()), assume, glob=kind == "podman").options(),
        **facts(assume, _FACTS),
    }
    runtime = found.text("runtime") or assume.get("runtime")
    if isinstance(runtime, str):
        options["runtime"] = "nvidia" if "nvidia" in runtime else runtime
    known = image_env(assume)
    kept = {key: value for key, value in options.items() if value}
    if known is not None:
        kept["image_env"] = known
    if found.unrecognised:
        kept["unrecognised"] = found.unrecognised
    return Layer(kind, kept), inner_command(found.rest[1:], found.text("entrypoint"), options["image"], assume)


def switched_on(found: Parsed, key: str) -> bool:
    """Whether a switch is on: ``--privileged``, not ``--privileged=false``."""
    return found.has(key) and (found.text(key) or "true").lower() not in ("false", "0", "f")


def inner_command(
    words: tuple[Word, ...], entrypoint: str | None, image: str, assume: Mapping[str, Any]
) -> tuple[Word, ...]:
    """What runs inside: entry point and command, of the command line or of the image, as far as it is known."""
    known, default = entrypoint_of(image)
    told = assume.get("image_entrypoint"), assume.get("image_cmd")
    if entrypoint is not None:
        own: tuple[Word, ...] = (Word(entrypoint),) if entrypoint else ()
    else:
        own = listed(told[0]) if told[0] is not None else listed(known)
        words = words or (listed(told[1]) if told[1] is not None else listed(default))
    if words and words[0].text.startswith("-") and not own:
        return ()  # arguments of an entry point that nobody told
    return (*own, *words)


def listed(value: Any) -> tuple[Word, ...]:
    """A command as a list of texts, or as one text that is split at blanks and quotes; () for anything else."""
    if isinstance(value, str):
        try:
            return tuple(map(Word, shlex.split(value)))
        except ValueError:
            return ()
    if isinstance(value, list | tuple):
        return tuple(Word(text) for text in value if isinstance(text, str))
    return ()


def _exec(kind: str, found: Parsed, assume: Mapping[str, Any]) -> Recognised:
    """``docker exec``: the container comes from ``assume["container"]``, a command or options of `docker`."""
    options: dict[str, Any] = {"tool": kind}
    options |= given(
        found.values.get("env", ()), found.values.get("env_file", ()), assume, glob=kind == "podman"
    ).options()
    started = assume.get("container")
    if isinstance(started, str):
        words = listed(started)
        layers = _recognise(words, {**assume, "container": None}).layers if words else ()
        if layers and layers[0].kind in CONTAINERS:
            options |= {"container": layers[0].options, "tool": layers[0].kind}
    elif isinstance(started, Mapping):
        options["container"] = started
    if found.unrecognised:
        options["unrecognised"] = found.unrecognised
    return Recognised((Layer("docker-exec", options),), found.rest[1:])


CONTAINERS = {"docker": apply_docker, "podman": apply_podman, "nerdctl": apply_nerdctl}
"""Kinds of containers that can be joined."""


def problem(options: Mapping[str, Any]) -> str | None:
    """Lists of texts, mappings of texts, requests as the daemon's API has them."""
    for key in ("gpus", "devices", "inherit", "adopt", "unknown", "missing", "unset"):
        listed_ = options.get(key, ())
        if not isinstance(listed_, tuple) or any(not isinstance(one, str) for one in listed_):
            return f"“{key}” is {listed_!r}, no list of texts"
    for key in ("set", "expand", "image_env"):
        held = options.get(key, {})
        if not isinstance(held, Mapping) or any(not isinstance(value, str) for value in held.values()):
            return f"“{key}” is {held!r}, no mapping of texts"
    for key in ("image", "runtime", "toolkit", "docker", "daemon", "tool"):
        if not isinstance(options.get(key, ""), str):
            return f"“{key}” is {options[key]!r}, no text"
    requests = options.get("requests", ())
    if not isinstance(requests, tuple) or any(not _is_request(row) for row in requests):
        return f"“requests” is {requests!r}, no list of device requests"
    inner = options.get("container")
    if inner is None or isinstance(inner, Mapping):
        return problem({key: value for key, value in inner.items() if key != "container"}) if inner else None
    return f"“container” is {inner!r}, no mapping"


def _docker_problem(options: Mapping[str, Any]) -> str | None:
    """As `problem`; ``refused`` says what Compose does not accept."""
    refused = options.get("refused")
    return problem(options) if refused in (None, "both", "capabilities", "ids") else f"“refused” is {refused!r}"


def _is_request(row: Any) -> bool:
    if (
        not isinstance(row, Mapping)
        or type(row.get("count", 0)) is not int
        or not isinstance(row.get("driver", ""), str)
    ):
        return False
    lists = (row.get("ids", ()), row.get("capabilities", ()))
    return all(isinstance(one, tuple) and all(isinstance(text, str) for text in one) for one in lists)


ROWS: Mapping[str, LayerRow] = {
    "docker": LayerRow(
        apply_docker,
        f"{CLI}; {DAEMON}",
        _docker_problem,
        "container",
        programs=("docker", "nvidia-docker"),
        recognise=_recognise,
        fresh=True,
        believed=believed_docker,
    ),
    "podman": LayerRow(
        apply_podman,
        PODMAN,
        problem,
        "container",
        programs=("podman",),
        recognise=_recognise,
        fresh=True,
        believed=believed_podman,
    ),
    "nerdctl": LayerRow(
        apply_nerdctl, NERDCTL, problem, "container", programs=("nerdctl",), recognise=_recognise, fresh=True
    ),
    "docker-exec": LayerRow(apply_exec, DAEMON, problem, "container", fresh=True),
}
