"""Two hosts, h0 and h1, on this machine: network namespaces with a host name, memory segments and a
list of hosts each. Between them is a wire (veth), with or without a limit of its rate, or a relay
that loses packets. A stand-in for ssh enters them. All of it goes with the processes that hold the
namespaces, which end with the test."""

import contextlib
import os
import shutil
import subprocess
import sys

import pytest

_HOLD = """
hostname "$1"
mount -t tmpfs none /dev/shm
mount --bind "$2" /etc/hosts
ip link set lo up
echo here
read line
"""

_SSH = """#!/bin/sh
# ssh [-o OPTION]... [-x] [--] HOST COMMAND...
while case $1 in -o) shift 2 ;; -*) shift ;; *) false ;; esac do :; done
case $1 in h0) pid=%s ;; h1) pid=%s ;; *) exit 255 ;; esac
shift
exec nsenter -t $pid -n -u -i -m --wd=/ sh -c "$*"
"""

# Reads packets of both hosts, and hands on all but one in `sys.argv[1]` at random.
_RELAY = """
import fcntl, os, random, select, struct, subprocess, sys
ends = []
for name in ("link0", "link1"):
    end = os.open("/dev/net/tun", os.O_RDWR)
    # TUNSETIFF: TUN, without headers.
    fcntl.ioctl(end, 0x400454ca, struct.pack("16sH", name.encode(), 0x1001))
    ends.append(end)
subprocess.run(["ip", "link", "set", "link1", "netns", sys.argv[2]], check=True)
print("here", flush=True)
sys.stdin.readline()  # now both ends are up
chance, lost = random.Random(30), 0
while True:
    for end in select.select([*ends, sys.stdin], [], [])[0]:
        if end is sys.stdin:
            sys.exit(print(lost))
        packet = os.read(end, 65536)
        if chance.randrange(int(sys.argv[1])) == 0:
            lost += 1
        else:
            os.write(ends[end == ends[0]], packet)
"""


class Hosts:
    """`environment`: variables with which poprun and mpirun reach both hosts from h0."""

    def __init__(self, folder, resources):
        self._resources = resources
        (folder / "hosts").write_text("127.0.0.1 localhost\n10.30.0.1 h0\n10.30.0.2 h1\n")
        self._pids = [self._hold("sh", "-ec", _HOLD, "sh", name, str(folder / "hosts"))
                      for name in ("h0", "h1")]
        (folder / "bin").mkdir()
        (folder / "bin/ssh").write_text(_SSH % tuple(self._pids))
        (folder / "bin/ssh").chmod(0o755)
        self.environment = {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}

    def _hold(self, *command):
        """The number of a process in namespaces of its own, which ends with the test."""
        job = subprocess.Popen(["unshare", "--net", "--uts", "--ipc", "--mount", *command],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._resources.callback(job.wait)
        self._resources.callback(job.stdin.close)
        if job.stdout.readline() != b"here\n":
            pytest.skip("this user cannot make network namespaces")
        return str(job.pid)

    def command(self, host, *command):
        """The command that runs a command on a host, in this folder."""
        return ["nsenter", "-t", self._pids[host], "-n", "-u", "-i", "-m", f"--wd={os.getcwd()}",
                *command]

    def run(self, host, *command):
        subprocess.run(self.command(host, *command), check=True)

    def _configure(self, rate):
        for host in (0, 1):
            name = f"link{host}"
            self.run(host, "ip", "address", "add", f"10.30.0.{host + 1}/24", "dev", name)
            self.run(host, "ip", "link", "set", name, "up")
            if rate:
                self.run(host, "tc", "qdisc", "add", "dev", name, "root", "tbf", "rate", rate,
                         "burst", "64k", "latency", "50ms")

    def wire(self, rate=None):
        """Joins the hosts; `rate` is tc's, such as "100mbit"."""
        subprocess.run(["ip", "link", "add", "link0", "netns", self._pids[0], "type", "veth",
                        "peer", "name", "link1", "netns", self._pids[1]], check=True)
        self._configure(rate)

    def lossy_wire(self, one_in):
        """Joins the hosts by a relay. Returns a function that ends it, and gives the number of
        packets that it has lost."""
        relay = subprocess.Popen(self.command(0, sys.executable, "-c", _RELAY, str(one_in),
                                              self._pids[1]),
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._resources.callback(relay.kill)
        if relay.stdout.readline() != "here\n":
            pytest.skip("this machine has no /dev/net/tun")
        self._configure(None)
        relay.stdin.write("\n")
        relay.stdin.flush()
        return lambda: int(relay.communicate("")[0])

    def set_link(self, state):
        """Cuts ("down") or mends ("up") the wire at h1."""
        self.run(1, "ip", "link", "set", "link1", state)


@contextlib.contextmanager
def two_hosts(folder):
    if not all(map(shutil.which, ("ip", "tc", "nsenter", "unshare"))):
        pytest.skip("the commands ip, tc, nsenter and unshare are not here")
    with contextlib.ExitStack() as resources:
        yield Hosts(folder, resources)
