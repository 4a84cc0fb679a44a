#!/usr/bin/env python3
"""Runs one benchmark under several MPIs, round by round in turn, and prints medians and ratios.

The first MPI of --mpi is compared with each of the others. A ratio is a cost: ours / theirs for times, theirs / ours
for bandwidths and rates, so below 1 is better for us. It is taken within each round, where the machine was the same
for all, and the median over the rounds is printed, per size and over all sizes. scripts/bench prepares the binaries.
"""
import argparse
import os
import re
import signal
import statistics
import subprocess
import sys
import time

NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?$", re.I)


def profiles(args):
    """How to start a program under each MPI: command prefix, folder of the binary, environment."""
    peer, near = args.peer_dir, args.prefix
    root = ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "PRTE_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM"]
    crowd = ["--map-by", ":OVERSUBSCRIBE"] if args.np > len(os.sched_getaffinity(0)) else []
    return {
        "nearmpi": ([f"{near}/bin/mpirun"], "mpich", {"LD_LIBRARY_PATH": f"{near}/lib:{near}/lib/compat"}),
        "mpich5": ([f"{peer}/mpich5/bin/mpiexec"], "mpich", {"LD_LIBRARY_PATH": f"{peer}/mpich5/lib"}),
        "impi": ([f"{peer}/impi/bin/mpiexec"], "mpich", {"LD_LIBRARY_PATH": f"{peer}/impi/lib", "I_MPI_FABRICS": "shm"}),
        "ompi5": ([f"{peer}/ompi5/bin/mpiexec"] + crowd, "ompi",
                  dict({name: "1" for name in root}, LD_LIBRARY_PATH=f"{peer}/ompi5/lib")),
    }


def parse(text):
    """Rows of OSU output as {size: value}, and whether larger values are better."""
    found = re.search(r"nprocs:.*avg: ([0-9.]+) ms", text)
    if found:
        return {"init ms": float(found.group(1))}, False
    head = "\n".join(line for line in text.splitlines() if line.startswith("#"))
    rows = {}
    for line in text.splitlines():
        words = line.split()
        if words and all(NUMBER.match(word) or word == "Pass" for word in words):
            numbers = [float(word) for word in words if word != "Pass"]
            rows[int(numbers[0]) if len(numbers) > 1 else "all"] = numbers[1] if len(numbers) > 1 else numbers[0]
    return rows, bool(re.search(r"MB/s|Messages/s", head))


def run(profile, args):
    """One run; None when it fails or takes too long."""
    launcher, folder, extra = profile
    command = launcher + ["-n", str(args.np), os.path.join(args.binaries, folder, args.benchmark)] + args.options
    child = subprocess.Popen(command, env=dict(os.environ, **extra), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        out, err = child.communicate(timeout=args.timeout)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGTERM)  # lets the launcher end its ranks
        time.sleep(1)
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        child.communicate()
        return None, f"no end within {args.timeout} s"
    if child.returncode:
        return None, f"exit status {child.returncode}: " + (err or out)[-300:]
    return parse(out), ""


def shown(value):
    return "-" if value is None else f"{value:.0f}" if value >= 1000 else f"{value:.2f}"


def table(names, rounds, higher, args):
    """Prints the table; returns {(peer, size): ratio}."""
    sizes = {size: None for one in rounds for rows in one.values() for size in rows}
    ours, peers = names[0], names[1:]
    what = "higher" if higher else "lower"
    print(f"\n{args.benchmark} {' '.join(args.options)} on {args.np} ranks, median of {len(rounds)} rounds, {what} is better")
    print(f"{'size':<10}" + "".join(f"{name:>12}" for name in names) + "".join(f"{'vs ' + name:>12}" for name in peers))
    ratios = {}
    for size in sizes:
        line = f"{size:<10}"
        for name in names:
            values = [one[name][size] for one in rounds if size in one.get(name, {})]
            line += f"{shown(statistics.median(values) if values else None):>12}"
        for name in peers:
            both = [(one[ours][size], one[name][size]) for one in rounds if size in one.get(ours, {}) and size in one.get(name, {})]
            costs = [(theirs / mine if higher else mine / theirs) for mine, theirs in both if mine and theirs]
            if costs:
                ratios[name, str(size)] = statistics.median(costs)
            line += f"{shown(ratios.get((name, str(size)))):>12}"
        print(line)
    medians = [[ratio for (peer, _), ratio in ratios.items() if peer == name] for name in peers]
    print(f"{'median':<10}" + " " * 12 * len(names) + "".join(f"{shown(statistics.median(m) if m else None):>12}" for m in medians))
    return ratios


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", required=True, help="folder with mpich/ and ompi/ builds")
    parser.add_argument("--prefix", default="", help="where nearmpi is installed")
    parser.add_argument("--peer-dir", default="", help="folder with mpich5/, impi/, ompi5/")
    parser.add_argument("--mpi", default="nearmpi,mpich5", help="comma list, the first is ours")
    parser.add_argument("--np", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--timeout", type=float, default=60, help="seconds for one run")
    parser.add_argument("--at-most", action="append", default=[], metavar="PEER:SIZE:RATIO")
    parser.add_argument("benchmark")
    parser.add_argument("options", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    names, known = args.mpi.split(","), profiles(args)
    rounds, higher, failures = [], False, 0
    for number in range(args.rounds):
        one = {}
        for name in names[number % len(names):] + names[:number % len(names)]:  # each is first in turn
            result, why = run(known[name], args)
            if result is None:
                failures += 1
                print(f"compare: round {number + 1}: {name}: {why}", file=sys.stderr)
            else:
                one[name], higher = result
        rounds.append(one)
    ratios = table(names, rounds, higher, args)
    missed = 0
    for rule in args.at_most:
        peer, size, limit = rule.rsplit(":", 2)
        ratio = ratios.get((peer, size))
        good = ratio is not None and ratio <= float(limit)
        missed += not good
        print(f"{'kept' if good else 'MISSED'}: {peer} at {size}: {shown(ratio)}, at most {limit}")
    return 1 if missed or failures else 0


if __name__ == "__main__":
    sys.exit(main())
