#!/usr/bin/env python3
"""Runs benchmarks under several MPIs, round by round in turn. scripts/bench prepares the binaries and calls this.

    compare.py [options] one BENCHMARK [its options]    one benchmark: prints medians and ratios
    compare.py [options] suite                          the jobs of suite.toml: writes results/data/JOB.json

The first MPI of a list is ours and is compared with each of the others. A ratio is a cost: ours / theirs for times,
theirs / ours for bandwidths and rates, so below 1 is better for us. It is taken within each round, where the machine was
the same for all, and the median over the rounds is printed. An MPI's name may carry settings, nearmpi+NEARMPI_ONE_COPY=0,
and options of the benchmark, nearmpi+--thread-multiple.
"""
import argparse
import datetime
import json
import os
import pathlib
import re
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib

from outcome import Result, cachegrind, failed_validation, geometric_mean, parse, shown, states, steady
from tables import line

HERE = pathlib.Path(__file__).resolve().parent
TRIES = 4  # of a run, until the host of a virtual machine leaves the CPUs where they are
ALL = "nearmpi,mpich5,mpich4,impi,ompi5"


class Mpis:
    """How to start a program under each MPI."""

    def __init__(self, args):
        self.binaries, self.cpus = pathlib.Path(args.binaries), len(os.sched_getaffinity(0))
        near, peer = args.prefix, args.peer_dir
        root = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "PRTE_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM")
        self.known = {  # launcher, folder of the binaries, environment
            "nearmpi": (f"{near}/bin/mpirun", "mpich", {"LD_LIBRARY_PATH": f"{near}/lib:{near}/lib/compat"}),
            "standard": (f"{near}/bin/mpirun", "standard", {"LD_LIBRARY_PATH": f"{near}/lib"}),
            "mpich5": (f"{peer}/mpich5/bin/mpiexec", "mpich", {"LD_LIBRARY_PATH": f"{peer}/mpich5/lib"}),
            "mpich4": (f"{peer}/mpich4/bin/mpiexec", "mpich", {"LD_LIBRARY_PATH": f"{peer}/mpich4/lib"}),
            "impi": (f"{peer}/impi/bin/mpiexec", "mpich", {"LD_LIBRARY_PATH": f"{peer}/impi/lib", "I_MPI_FABRICS": "shm"}),
            "ompi5": (f"{peer}/ompi5/bin/mpiexec", "ompi", dict(dict.fromkeys(root, "1"), LD_LIBRARY_PATH=f"{peer}/ompi5/lib")),
        }
        self.imb = pathlib.Path(f"{peer}/impi/bin")
        for setting in args.set:  # NAME=DIR: another installation of ours, under a name of its own
            name, folder = setting.split("=", 1)
            self.known[name] = (f"{folder}/bin/mpirun", "mpich", {"LD_LIBRARY_PATH": f"{folder}/lib:{folder}/lib/compat"})

    def command(self, name, job):
        """Words and environment for a job under one MPI; None where it cannot run."""
        options = shlex.split(job.get("options", ""))
        if job.get("settle") and not job["program"].startswith(("IMB", "init")) and not job.get("tool"):
            options += ["--settle", str(job["settle"])]
        if name == "hardware":
            program, *options = shlex.split(job["hardware"])
            return [str(self.binaries / "mpich" / program), *options], {}
        mpi, *settings = name.split("+")
        launcher, folder, environment = self.known[mpi]
        program = self.binaries / folder / job["program"]
        if job["program"].startswith("IMB"):
            if folder != "mpich":
                return None  # Intel's binaries speak MPICH's ABI alone
            program = self.imb / job["program"]
        crowd = ["--map-by", ":OVERSUBSCRIBE"] if mpi == "ompi5" and job["np"] > self.cpus else []
        tool = ["valgrind", "--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null"] if job.get("tool") else []
        environment = dict(environment, **dict(setting.split("=", 1) for setting in settings if not setting.startswith("-")))
        options += [setting for setting in settings if setting.startswith("-")]
        return [launcher, *crowd, "-n", str(job["np"]), *tool, str(program), *options], environment

    def bounce(self):
        """us that a cache line takes from one CPU to another just now; None where there is one CPU, or limits.c was not built."""
        if self.cpus < 2 or not (self.binaries / "mpich" / "limits").exists():
            return None
        return parse(self.run("hardware", {"hardware": "limits bounce", "program": "limits"}, 10)[0] or "").get("8", [None])[0]

    def version(self, name):
        """What the library says of itself; it also proves that the right one is loaded."""
        if name == "hardware":
            return ""
        done = self.run(name, {"program": "init", "options": "--version", "np": 1}, 30)
        lines = (done[0] or "").strip().splitlines()
        return " ".join(lines[0].split()).replace("MPICH Version: ", "MPICH ")[:90] if lines else f"unknown ({done[1]})"

    def run(self, name, job, timeout):
        """Output and errors, or None and why there is none."""
        made = self.command(name, job)
        if made is None:
            return None, "cannot run this program"
        command, environment = made
        try:
            child = subprocess.Popen(command, env=dict(os.environ, **environment), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                     stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True)
        except OSError as error:
            return None, str(error)
        try:
            out, err = child.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            end(child)
            return None, f"no end within {timeout:g} s"
        except BaseException:  # interrupted: leave no rank behind
            end(child)
            raise
        if child.returncode:
            return None, f"exit status {child.returncode}: " + " | ".join((err or out).strip().splitlines()[-3:])[-300:]
        if failed_validation(out):
            return None, "wrong data"
        return out, err


def end(child):
    """Lets the launcher end its ranks, then makes sure."""
    for number, patience in ((signal.SIGTERM, 1.0), (signal.SIGKILL, 5.0)):
        try:
            os.killpg(child.pid, number)
        except ProcessLookupError:
            pass
        try:
            child.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            continue


def measure(mpis, job, rounds, say, patience=60.0):
    """Rounds of a job -> rounds, what a cache line took in each, {mpi: why}. An MPI that failed or did not end is not tried again.

    A cache line is timed before and after each run. A run during which that changed, or that had it otherwise than the runs
    before it in its round, is done again; a round that cannot be had like this counts only when there is no other.
    """
    names, failed, seconds, kept, moved = job["mpis"], {}, {}, [], []
    bounce = (lambda: None) if job.get("tool") else mpis.bounce
    before = bounce()
    for number in range(2 * rounds):
        if len(kept) == rounds or set(names) <= set(failed):
            break
        one, bounces = {}, []
        for name in names[number % len(names):] + names[:number % len(names)]:  # each is first in turn
            for _ in range(TRIES):
                if name in failed:
                    break
                begin = time.monotonic()
                say(f"round {len(kept) + 1} of {rounds}: {name}")
                out, why = mpis.run(name, job, job.get("timeout", patience))
                took, after = time.monotonic() - begin, bounce()
                around, before = [before, after], after
                if not (rows := rows_of(job, out, why)):
                    failed[name] = why if out is None else "no numbers in its output"
                    say(f"round {len(kept) + 1}: {name}: {failed[name]}", keep=True)
                    break
                one[name] = rows
                seconds.setdefault(name, []).append(took)
                if steady(bounces + around):
                    bounces += around
                    break
            else:
                bounces = None
                break
        if bounces is None:
            moved.append((one, None))
        else:
            known = [bounce for bounce in bounces if bounce]
            kept.append((one, round(statistics.median(known), 4) if known else None))
    job["seconds"] = {name: round(max(took), 1) for name, took in seconds.items()}
    kept = kept or moved
    return [one for one, _ in kept], [bounce for _, bounce in kept], failed


def rows_of(job, out, err):
    """What a run printed, {key: [values]}; empty when nothing."""
    if out is None:
        return {}
    if job.get("tool"):
        counted = cachegrind(err)
        rows = {"all": [counted[what] for what in job["values"] if what in counted]}
    else:
        rows = parse(out)
        job["head"] = [text for text in out.splitlines() if text.startswith("#")][-1:]
    return rows if any(rows.values()) else {}


def table(result):
    """Prints medians and ratios; returns {(peer, size): ratio}."""
    ours, others, ratios = result.ours(), result.names()[1:], {}
    wide = max(12, *(len(name) + 5 for name in result.names()))
    print(f"{'size':<10}" + "".join(f"{name:>{wide}}" for name in result.names()) + "".join(f"{'vs ' + name:>{wide}}" for name in others))
    for key in result.keys():
        row = f"{key:<10}" + "".join(f"{shown(result.median(name, key)):>{wide}}" for name in [ours] + others)
        for name in others:
            costs = result.costs(key, against=name)
            if costs:
                ratios[name, key] = statistics.median(costs)
            row += f"{shown(ratios.get((name, key))):>{wide}}"
        print(row)
    means = [geometric_mean([ratio for (peer, _), ratio in ratios.items() if peer == name]) for name in others]
    print(f"{'mean':<10}" + " " * wide * len(result.names()) + "".join(f"{shown(mean):>{wide}}" for mean in means))
    return ratios


class Progress:
    """One line that changes on a terminal; in a log only what is to be kept."""

    def __init__(self):
        self.alive, self.head = sys.stderr.isatty(), ""

    def __call__(self, text, keep=False):
        if self.alive:
            sys.stderr.write(f"\r\x1b[K{self.head}{text}" + ("\n" if keep else ""))
        elif keep:
            sys.stderr.write(f"{self.head}{text}\n")
        sys.stderr.flush()


def one(mpis, args):
    """Compares under one benchmark; 1 when something failed or a limit was missed."""
    job = {"program": args.benchmark, "options": shlex.join(args.options), "np": args.np, "mpis": args.mpi.split(",")}
    say = Progress()
    rounds, bounces, failed = measure(mpis, job, args.rounds, say, args.timeout)
    say("")
    job["values"] = ["MB/s" if "MB/s" in "".join(job.get("head", [])) else "us"]
    print(f"\n{args.benchmark} {job['options']} on {args.np} ranks, {job['values'][0]}")
    missed = 0
    for state, part in Result(job, rounds, bounces).split(states(bounces)):
        print(f"\nmedian of {len(part.rounds)} rounds" + (f"; a cache line from one CPU to the other: {line(state)}" if state else ""))
        ratios = table(part)
        for rule in args.at_most:
            peer, size, limit = rule.rsplit(":", 2)
            ratio = ratios.get((peer, size))
            good = ratio is not None and ratio <= float(limit)
            missed += not good
            print(f"{'kept' if good else 'MISSED'}: {peer} at {size}: {shown(ratio)}, at most {limit}")
    return 1 if missed or failed else 0


def jobs(path, quick):
    """The suite's jobs with everything filled in."""
    suite = tomllib.loads(path.read_text())
    for job in suite["job"]:
        job = dict(suite.get("defaults", {}), **job)
        if quick:
            if not job.get("quick"):
                continue
            job.update(job["quick"] if isinstance(job["quick"], dict) else {})
        job.pop("quick", None)
        job["mpis"] = ([] if "only" in job else ALL.split(",")) + job.get("only", [])
        job["mpis"][1:1] = ["nearmpi+" + setting for setting in job.pop("off", [])]
        if job.get("hardware") and "hardware" not in job["mpis"]:
            job["mpis"].append("hardware")
        yield job


def suite(mpis, args):
    """Runs jobs, writes each when it is done."""
    chosen = [job for job in jobs(HERE / "suite.toml", args.quick) if re.search(args.only, job["name"])]
    if args.list:
        for job in chosen:
            print(f"{job['name']:<26} " + (job.get("text") or f"{job['np']:>3} ranks  {job['program']} {job.get('options', '')}"))
        return 0
    folder = pathlib.Path(args.results) / "data"
    if args.missing:
        chosen = [job for job in chosen if not measured(folder / f"{job['name']}.json")]
    wanted = set(args.mpi.split(","))
    versions, say = {}, Progress()
    folder.mkdir(parents=True, exist_ok=True)
    for number, job in enumerate(chosen):
        say.head = f"[{number + 1}/{len(chosen)}] {job['name']}: "
        job["mpis"] = [name for name in job["mpis"] if name.split("+")[0] in wanted or name == "hardware"]
        if "text" in job:
            job["mpis"] = []
        for name in job["mpis"]:
            base = name.split("+")[0]
            if base not in versions:
                versions[base] = mpis.version(base)
        begin = time.monotonic()
        rounds, bounces, failed = measure(mpis, job, args.rounds or job["rounds"], say, args.timeout) if job["mpis"] else ([], [], {})
        text = words(pathlib.Path(args.prefix), job["text"], args.binaries) if "text" in job else ""
        took = time.monotonic() - begin
        say(f"{took:.0f} s" + (f", failed: {', '.join(failed)}" if failed else ""), keep=True)
        commands = {name: mpis.command(name, job) for name in job["mpis"]}
        strip = lambda text: neutral(text, {args.peer_dir: "PEERS", args.prefix: "PREFIX", args.binaries: "BINARIES"})
        record = {
            "job": job, "rounds": rounds, "bounces": bounces, "failed": {name: strip(why) for name, why in failed.items()},
            "machine": machine(), "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
            "commit": args.commit, "versions": {name: versions[name] for name in versions if name in {n.split("+")[0] for n in job["mpis"]}},
            "commands": {name: strip(shlex.join(made[0])) for name, made in commands.items() if made}, "text": strip(text),
        }
        if any(rounds) or text:  # never old numbers replaced by none
            (folder / f"{job['name']}.json").write_text(compact(record))
    return 0


def measured(path):
    """Whether there is a result with anything in it."""
    if not path.exists():
        return False
    record = json.loads(path.read_text())
    return any(record["rounds"]) or bool(record.get("text"))


def neutral(text, places):
    """The text without the paths of this machine; the longest first, as one may lie within another."""
    for path in sorted((str(path) for path in places if len(str(path)) > 1), key=len, reverse=True):
        text = text.replace(path, {str(place): name for place, name in places.items()}[path])
    return text


def words(prefix, commands, binaries=""):
    """What the last of our own commands, joined by &&, prints. They start in the repository; FOLDER is one for their files."""
    with tempfile.TemporaryDirectory() as folder:
        for command in commands.split(" && "):
            places = {"FOLDER": folder, "BINARIES": str(binaries)}
            for name, place in places.items():
                command = command.replace(name, place)
            program, *options = shlex.split(command)
            try:
                done = subprocess.run([prefix / "bin" / program, *options], cwd=HERE.parent, capture_output=True, text=True, timeout=60)
            except (OSError, subprocess.TimeoutExpired) as error:
                return f"{error}\n"
            if done.returncode != 0:
                return f"exit status {done.returncode}: {done.stderr}"
    return done.stdout


def compact(record):
    """JSON with a line a round and MPI, so that a change shows as one."""
    rounds = record.pop("rounds")
    head = json.dumps(record, indent=1)
    lines = []
    for one in rounds:
        lines.append("  {" + ",\n   ".join(f"{json.dumps(name)}: {json.dumps(rows, separators=(',', ':'))}" for name, rows in one.items()) + "}")
    return head[:-2] + ',\n "rounds": [\n' + ",\n".join(lines) + "\n ]\n}\n"


def machine():
    """What the numbers depend on."""
    def read(path):
        try:
            return pathlib.Path(path).read_text().strip()
        except OSError:
            return ""
    cpu = dict(re.findall(r"^(model name|cpu family|model|stepping)\s*:\s*(.*)$", read("/proc/cpuinfo"), re.M))
    caches = {}
    for folder in sorted(pathlib.Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        kind, level = read(folder / "type"), read(folder / "level")
        caches[f"L{level}" + {"Data": "d", "Instruction": "i"}.get(kind, "")] = read(folder / "size") + " for CPUs " + read(folder / "shared_cpu_list")
    memory = re.search(r"MemTotal:\s*(\d+)", read("/proc/meminfo"))
    nodes = len(list(pathlib.Path("/sys/devices/system/node").glob("node[0-9]*"))) or 1
    return {
        "cpu": cpu.get("model name", "unknown") + f" (family {cpu.get('cpu family')}, model {cpu.get('model')})",
        "cpus": len(os.sched_getaffinity(0)), "caches": caches, "nodes": nodes,
        "memory": f"{int(memory.group(1)) >> 20} GiB" if memory else "unknown",
        "kernel": os.uname().release, "virtual": "hypervisor" in read("/proc/cpuinfo"),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", required=True, help="folder with mpich/ and ompi/ builds")
    parser.add_argument("--prefix", default="", help="where nearmpi is installed")
    parser.add_argument("--peer-dir", default="", help="folder with mpich5/, mpich4/, impi/, ompi5/")
    parser.add_argument("--mpi", default=ALL, help="comma list, the first is ours")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=DIR", help="another nearmpi, installed in DIR")
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--timeout", type=float, default=60, help="seconds for one run")
    kinds = parser.add_subparsers(required=True)
    single = kinds.add_parser("one")
    single.add_argument("--np", type=int, default=2)
    single.add_argument("--at-most", action="append", default=[], metavar="PEER:SIZE:RATIO")
    single.add_argument("benchmark")
    single.add_argument("options", nargs=argparse.REMAINDER)
    single.set_defaults(run=one)
    many = kinds.add_parser("suite")
    many.add_argument("--only", default="", metavar="REGEX", help="jobs whose name matches")
    many.add_argument("--quick", action="store_true", help="the jobs behind the headlines, shortened")
    many.add_argument("--missing", action="store_true", help="only what has no results yet: goes on with an interrupted run")
    many.add_argument("--list", action="store_true", help="names the jobs")
    many.add_argument("--results", required=True)
    many.add_argument("--commit", default="unknown")
    many.set_defaults(run=suite)
    args = parser.parse_args()
    if args.run is one:
        args.rounds = args.rounds or 5
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    return args.run(Mpis(args), args)


if __name__ == "__main__":
    sys.exit(main())
