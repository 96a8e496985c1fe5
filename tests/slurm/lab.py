"""A private SLURM for tests: munged, slurmctld and a slurmd per node, with their own folder, key,
sockets, ports and logs. The machine's own SLURM, if it has one, is not touched.

Where the kernel lets us, everything runs in namespaces of its own: a process tree that ends with
its first process, a /dev/shm, and a network without a way out, with two nodes of their own names
and addresses. Elsewhere it is one node on the loopback interface. Needs root, and the packages
slurm-wlm, munge.
"""

import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "squeue", "scancel")
SEARCH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin", "/sbin"))
INSIDE = "APO_SLURM_LAB"  # "namespaces": this process is in them; "plain": do without

CONF = """\
ClusterName=apo
SlurmctldHost={host}({ctld})
SlurmctldPort={port}
{network}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={lab}/munge.socket,cred_expire=30
SlurmUser=root
SlurmdUser=root
StateSaveLocation={lab}/state
SlurmdSpoolDir={lab}/spool-%n
TmpFS={lab}/tmp-%n
SlurmctldPidFile={lab}/slurmctld.pid
SlurmdPidFile={lab}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0,sched_min_interval=0
SlurmdParameters=config_overrides
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
GresTypes=gpu
MpiDefault=none
ReturnToService=2
KillWait=10
MessageTimeout=60
TCPTimeout=30
BatchStartTimeout=60
MinJobAge=3600
JobRequeue=1
MailProg=/bin/true
"""
# Each with four cores and two GPUs on paper, whatever the machine has.
NODE = ("NodeName={name} NodeHostname={host} NodeAddr={address} Port={port} CPUs=4 Sockets=1 "
        "CoresPerSocket=4 ThreadsPerCore=1 RealMemory=4000 Gres=gpu:2\n")
PARTITIONS = ("PartitionName=work Nodes=ALL Default=YES MaxTime=INFINITE PriorityTier=1\n"
              "PartitionName=urgent Nodes=ALL MaxTime=INFINITE PriorityTier=2\n")


def missing():
    """Programs that are not on this machine."""
    return [name for name in PROGRAMS if not shutil.which(name, path=SEARCH)]


def enter_namespaces():
    """Starts this script again in namespaces of its own, where that can be had."""
    if INSIDE in os.environ:
        return
    words = ["unshare", "--pid", "--mount", "--net", "--uts", "--fork", "--kill-child",
             "--mount-proc"]
    probe = ("ip link set lo up && ip link add apo0 type bridge && mount -t tmpfs none /run && "
             "mount -t tmpfs none /dev/shm && "
             "ip netns add apo && ip link add apo1 type veth peer name eth0 netns apo && "
             "hostname apo0")
    tried = subprocess.run([*words, "sh", "-c", probe], stdin=subprocess.DEVNULL, text=True,
                           capture_output=True, env={**os.environ, "PATH": SEARCH})
    if tried.returncode != 0:
        print(f"slurm: no namespaces here ({tried.stderr.strip()}): one node on loopback",
              file=sys.stderr)
        return
    os.environ[INSIDE] = "namespaces"
    os.execvp(words[0], [*words, sys.executable, *sys.argv])


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def environment_of(pid):
    """The variables that a process was started with."""
    words = pathlib.Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
    return dict(word.split("=", 1) for word in words if "=" in word)


class Lab:
    def __init__(self, folder):
        """Writes the configuration. folder: new, and short enough for the name of a socket."""
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(mode=0o755)
        self.daemons = {}
        self.alone = os.environ.get(INSIDE) == "namespaces"
        self.nodes = ("apo1", "apo2") if self.alone else ("apo1",)
        self.environment = {
            **{name: value for name, value in os.environ.items()
               if not name.startswith(("SLURM", "SBATCH", "APO_"))},
            "PATH": SEARCH, "SLURM_CONF": str(self.folder / "slurm.conf")}
        # Open MPI's files in /dev/shm and TMPDIR are named by host and job id, which the jobs of a
        # second lab, or of this machine's own SLURM, have too.
        for name in ("tmp", "shm"):
            (self.folder / name).mkdir()
        self.environment["TMPDIR"] = str(self.folder / "tmp")
        if self.alone:
            self.make_network()
        else:  # its names in Open MPI 4 and 5
            for transport in ("vader", "sm"):
                self.environment[f"OMPI_MCA_btl_{transport}_backing_directory"] = \
                    str(self.folder / "shm")
        self.write_configuration()

    def write_configuration(self):
        host = socket.gethostname().split(".")[0]
        conf = CONF.format(
            lab=self.folder, host=host, ctld="10.77.0.10" if self.alone else "127.0.0.1",
            port=free_port(), network="" if self.alone else
            "CommunicationParameters=NoInAddrAny,NoCtldInAddrAny")
        for number, node in enumerate(self.nodes, 1):
            for name in (f"spool-{node}", f"tmp-{node}"):
                (self.folder / name).mkdir()
            conf += NODE.format(name=node, host=node if self.alone else host, port=free_port(),
                                address=f"10.77.0.1{number}" if self.alone else "127.0.0.1")
        (self.folder / "state").mkdir()
        (self.folder / "slurm.conf").write_text(conf + PARTITIONS)
        # Any character devices do for two GPUs that nobody opens.
        (self.folder / "gres.conf").write_text("Name=gpu File=/dev/null\nName=gpu File=/dev/zero\n")
        self.version = tuple(int(n) for n in re.findall(r"\d+", self.run("sbatch", "-V"))[:2])
        if self.version >= (23, 11):
            (self.folder / "cgroup.conf").write_text("CgroupPlugin=disabled\n")

    def make_network(self):
        """A bridge with the controller at 10.77.0.10 and the nodes at .11 and .12."""
        hosts = "127.0.0.1 localhost\n10.77.0.10 apo0\n10.77.0.11 apo1\n10.77.0.12 apo2\n"
        (self.folder / "hosts").write_text(hosts)
        lines = ["mount -t tmpfs none /run", "mount -t tmpfs none /dev/shm",
                 f"mount --bind {self.folder}/hosts /etc/hosts", "hostname apo0",
                 "ip link set lo up", "ip link add apo0 type bridge",
                 "ip addr add 10.77.0.10/24 dev apo0", "ip link set apo0 up"]
        for number, node in enumerate(self.nodes, 1):
            lines += [f"ip netns add {node}",
                      f"ip link add {node} type veth peer name eth0 netns {node}",
                      f"ip link set {node} master apo0 up", f"ip -n {node} link set lo up",
                      f"ip -n {node} addr add 10.77.0.1{number}/24 dev eth0",
                      f"ip -n {node} link set eth0 up"]
        self.run("sh", "-ec", "\n".join(lines))

    def run(self, *words, check=True, timeout=120, cwd=None, environment=None):
        """Standard output of a command that sees this SLURM."""
        done = subprocess.run([str(w) for w in words], text=True, capture_output=True, cwd=cwd,
                              timeout=timeout, env={**self.environment, **(environment or {})})
        if check and done.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, words))}: exit code {done.returncode}\n"
                               f"{done.stdout}{done.stderr}\n{self.logs()}")
        return done.stdout

    def logs(self):
        """The last lines of the daemons' logs."""
        return "\n".join(f"-- {path.name}\n" + "\n".join(path.read_text().splitlines()[-15:])
                         for path in sorted(self.folder.glob("*.log")))

    def spawn(self, name, *words):
        with open(self.folder / f"{name}.log", "ab") as log:
            self.daemons[name] = subprocess.Popen(
                ["setpriv", "--pdeathsig", "TERM", *words],  # it goes when this process goes
                env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True)

    def start_munge(self):
        key = self.folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(128))
        at = self.folder
        self.spawn("munged", "munged", "--foreground", "--force", f"--key-file={key}",
                   f"--socket={at}/munge.socket", f"--pid-file={at}/munged.pid",
                   f"--seed-file={at}/munged.seed", "--num-threads=2")
        self.wait_for(lambda: (at / "munge.socket").exists(), "munged's socket")

    def start_slurm(self):
        self.spawn("slurmctld", "slurmctld", "-D")
        for node in self.nodes:
            inside = ["nsenter", f"--net=/run/netns/{node}", "unshare", "--uts", "sh", "-c",
                      f"hostname {node} && exec slurmd -D -N {node}"]
            self.spawn(f"slurmd-{node}", *(inside if self.alone else ["slurmd", "-D", "-N", node]))

    def start(self):
        self.start_munge()
        self.start_slurm()
        self.wait_for(lambda: self.run("sinfo", "-h", "-N", "-p", "work", "-o", "%T",
                                       check=False).split() == ["idle"] * len(self.nodes),
                      "idle nodes")

    def wait_for(self, condition, what, seconds=120):
        deadline = time.monotonic() + seconds
        while not condition():
            dead = [name for name, daemon in self.daemons.items() if daemon.poll() is not None]
            if dead or time.monotonic() > deadline:
                raise RuntimeError(f"waited for {what} for up to {seconds} s; ended daemons: "
                                   f"{dead or 'none'}\n{self.logs()}")
            time.sleep(0.1)

    def kill_slurm(self):
        """SIGKILL to slurmctld and every slurmd; jobs and munged live on."""
        for name in [name for name in self.daemons if name.startswith("slurm")]:
            daemon = self.daemons.pop(name)
            daemon.kill()
            daemon.wait()

    def processes(self, program=None, job=None):
        """Processes that were started under this SLURM, its daemons included; or those of a job
        (a number) that run a program (a path)."""
        marks = {"SLURM_CONF": str(self.folder / "slurm.conf"),
                 **({"SLURM_JOB_ID": str(job)} if job else {})}
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if marks.items() <= environment_of(path.name).items() and (
                        not program or (path / "exe").samefile(program)):
                    found.append(int(path.name))
            except OSError:
                pass  # it ended, or is a kernel thread
        return found

    def stop(self):
        """Ends jobs and daemons, whatever state they are in, and removes the folder."""
        try:
            self.run("scancel", "--user=root", check=False, timeout=5)
        except (OSError, subprocess.TimeoutExpired):
            pass
        for strength in (signal.SIGTERM, signal.SIGKILL):
            for pid in self.processes():
                try:
                    os.kill(pid, strength)
                except ProcessLookupError:
                    pass
            deadline = time.monotonic() + 5
            while self.processes() and time.monotonic() < deadline:
                for daemon in self.daemons.values():
                    daemon.poll()
                time.sleep(0.1)
        if self.alone:
            subprocess.run(["umount", "/etc/hosts"], check=False, stderr=subprocess.DEVNULL)
        shutil.rmtree(self.folder, ignore_errors=True)
