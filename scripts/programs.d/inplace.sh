# In place of MPICH: a binary compiled with MPICH's mpicc, under every launcher people have; read by scripts/programs.

inplace_fetch() {
    INPLACE=$CACHE/scratch/inplace-$WITH
    "$MPICH/bin/mpicc" -O1 -Wall "$here/c-tests/programs/inplace.c" -o "$INPLACE" || die "MPICH's mpicc failed"
    LIBRARY=$(realpath "$PREFIX/lib/libmpi.so.12")
}
# launcher NAME: sets LAUNCH to the command line of a launcher, up to where options begin.
launcher() {
    case $1 in
        own) LAUNCH=("$MPIRUN") ;;
        hydra5) LAUNCH=("$MPICH/bin/mpiexec.hydra") ;;
        hydra4)
            debian_fetch
            LAUNCH=(env "LD_LIBRARY_PATH=$DEBIAN/lib" "$DEBIAN/bin/mpiexec.hydra") ;;
        intel)
            imb_fetch
            local hydra
            hydra=$(find "$CACHE/pypi/impi-rt" -name mpiexec.hydra -type f | head -n 1)
            LAUNCH=(env "I_MPI_ROOT=$CACHE/pypi/impi-rt" "$hydra") ;;
    esac
}
# inplace_verdict RANKS: every rank has spoken once, with its sums right and only the library under test mapped.
inplace_verdict() {
    local rank
    for ((rank = 0; rank < $1; rank++)); do
        [ "$(grep -c "^rank $rank of $1: right, on $LIBRARY\$" "$LOG")" = 1 ] ||
            die "rank $rank of $1: $(grep -m 1 -E "^rank $rank of|^rank 0 of 1:" "$LOG" || reason)"
    done
    say "$1 ranks"
}
inplace_path() { # RANKS: our launcher, our library by the loader's path
    inplace_fetch
    ranks "$1" 30 "$INPLACE"
    inplace_verdict "$1"
}
inplace_genv() { # LAUNCHER RANKS: LD_PRELOAD for the ranks only
    inplace_fetch
    launcher "$1"
    limited 30 "${LAUNCH[@]}" -n "$2" -genv LD_PRELOAD "$LIBRARY" "$INPLACE"
    inplace_verdict "$2"
}
inplace_preload() { # LAUNCHER RANKS: LD_PRELOAD for the launcher and all its helpers too
    inplace_fetch
    launcher "$1"
    limited 30 env LD_PRELOAD="$LIBRARY" "${LAUNCH[@]}" -n "$2" "$INPLACE"
    inplace_verdict "$2"
}
inplace_abort() { # LAUNCHER: rank 1 aborts with code 7 while rank 0 waits for a message
    local rc
    inplace_fetch
    launcher "$1"
    env "$MARK" timeout -k 5 30 "${LAUNCH[@]}" -n 2 -genv LD_PRELOAD "$LIBRARY" "$INPLACE" abort
    rc=$?
    [ $rc = 7 ] || die "ended with code $rc, not with 7"
    say "ended with the code given"
}
inplace_single() {
    inplace_fetch
    limited 30 env LD_PRELOAD="$LIBRARY" "$INPLACE"
    inplace_verdict 1
    : >"$LOG"
    LD_LIBRARY_PATH=$RUNPATHS limited 30 "$INPLACE"
    inplace_verdict 1
    say "by LD_PRELOAD and by LD_LIBRARY_PATH"
}
# A binary linked to Debian's libmpich.so.12, under a launcher of MPICH.
inplace_debian() { # LAUNCHER
    debian_fetch
    launcher "$1"
    limited 60 "${LAUNCH[@]}" -n 2 -genv LD_LIBRARY_PATH "$RUNPATHS" "$DEBIAN/bin/NPmpich2" -i -u 10000
    grep -q 'Integrity check passed' "$LOG" || die "$(reason)"
    say "NetPIPE intact"
}
inplace_mpi4py() { # LAUNCHER
    mpi4py_fetch
    launcher "$1"
    limited 60 "${LAUNCH[@]}" -n 2 -genv MPI4PY_LIBMPI "$PREFIX/lib/libmpi.so.12" "$PYTHON" -m mpi4py.bench ringtest -l 10 -n 100000
    grep -q '(2 processes' "$LOG" || die "$(reason)"
    say "mpi4py's ring"
}

inplace_programs() {
    local name
    prog inplace-path-2 default inplace_path 2
    prog inplace-path-4 default inplace_path 4
    for name in own hydra5 hydra4 intel; do
        prog inplace-$name-2 default inplace_genv $name 2
        prog inplace-$name-4 default inplace_genv $name 4
        prog inplace-$name-preload default inplace_preload $name 2
        prog inplace-$name-abort default inplace_abort $name
    done
    prog inplace-singleton default inplace_single
    for name in hydra5 hydra4 intel; do
        prog inplace-$name-netpipe default inplace_debian $name
        prog inplace-$name-mpi4py default inplace_mpi4py $name
    done
}
