# mpi4py's wheel from PyPI and the tests of its source distribution; read by scripts/programs.

MPI4PY_VERSION=4.1.2
mpi4py_fetch() {
    wheel mpi4py $MPI4PY_VERSION && once pypi-numpy "$PYTHON" -m pip install -q numpy &&
        once mpi4py-source mpi4py_source || die "mpi4py could not be fetched (see $CACHE/logs/fetch.log)"
    TESTS=$CACHE/mpi4py-$MPI4PY_VERSION/test
    PYTHONPATH=${MPI4PY_SITE:-$(site mpi4py)}
    export PYTHONPATH PYTHONDONTWRITEBYTECODE=1
}
mpi4py_source() {
    rm -rf "$CACHE/sdist" &&
        "$PYTHON" -m pip download -q --no-deps --no-binary mpi4py -d "$CACHE/sdist" "mpi4py==$MPI4PY_VERSION" &&
        tar -C "$CACHE" -xzf "$CACHE/sdist/mpi4py-$MPI4PY_VERSION.tar.gz"
}
# mpi4py_import: found by the loader's path, then by MPI4PY_LIBMPI; only the library under test may be mapped.
mpi4py_import() {
    mpi4py_fetch
    local program='
import re
from mpi4py import MPI
libraries = {line.split()[-1] for line in open("/proc/self/maps") if re.search(r"/lib(mpi|mpich|open-pal)[^/]*\.so", line)}
print("mapped", *sorted(libraries))
print(MPI.Get_library_version().splitlines()[0])'
    local mapped allowed
    LD_LIBRARY_PATH=$RUNPATHS limited 30 "$PYTHON" -c "$program"
    MPI4PY_LIBMPI=$PREFIX/lib/libmpi.so.12 limited 30 "$PYTHON" -c "$program"
    allowed=$(realpath "$PREFIX/lib/libmpi.so.12")
    for mapped in $(sed -n 's/^mapped //p' "$LOG"); do
        [ "$(realpath "$mapped")" = "$allowed" ] || [[ $mapped == "$PREFIX"/lib/* ]] || die "$mapped is mapped"
    done
    [ "$(grep -c '^mapped ..*' "$LOG")" = 2 ] || die "$(reason)"
    say "$(tail -n 1 "$LOG")"
}
mpi4py_hello() { # RANKS
    mpi4py_fetch
    ranks "$1" 30 "$PYTHON" -m mpi4py.bench helloworld
    local rank
    for ((rank = 0; rank < $1; rank++)); do
        grep -q "I am process $rank of $1 " "$LOG" || die "no line of process $rank of $1"
    done
    say "$1 greetings"
}
mpi4py_ring() { # RANKS
    mpi4py_fetch
    ranks "$1" 60 "$PYTHON" -m mpi4py.bench ringtest -l 100 -n 1000
    ranks "$1" 60 "$PYTHON" -m mpi4py.bench ringtest -l 5 -n 4000000
    [ "$(grep -c "loops = .*($1 processes" "$LOG")" = 2 ] || die "$(reason)"
    say "1 KB and 4 MB around $1 ranks"
}
# mpi4py_tests RANKS LIMIT MODULE...: every rank must have run tests and found them right.
mpi4py_tests() {
    local n=$1 limit=$2 ran fine
    shift 2
    mpi4py_fetch
    cd "$TESTS" || die "the source distribution has no tests"
    export MPI4PY_LIBMPI=$PREFIX/lib/libmpi.so.12
    env "$MARK" LD_LIBRARY_PATH="$RUNPATHS" timeout -k 5 "$limit" "$MPIRUN" -n "$n" "$PYTHON" main.py -v "$@"
    local rc=$?
    [ $rc != 124 ] && [ $rc != 137 ] || die "no end within $limit s, the last words: $(grep -a . "$LOG" | tail -n 1 | cut -c 1-150)"
    [ $rc = 0 ] || die "code $rc: $(mpi4py_failures)"
    fine=$(grep -acE '^OK' "$LOG")
    ran=$(sed -nE 's/^Ran ([0-9]+) tests.*/\1/p' "$LOG" | sort -n | head -n 1)
    [ "$fine" -ge "$n" ] && [ "${ran:-0}" -gt 0 ] || die "$fine of $n ranks were content, ${ran:-0} tests ran"
    say "$ran tests on each of $n ranks $(sed -nE 's/^OK *//p' "$LOG" | grep . | head -n 1)"
}
# mpi4py_standard RANKS LIMIT MODULE...: the same with mpi4py compiled for the standard ABI.
mpi4py_standard() {
    MPI4PY_SITE=$CACHE/mpi4py-standard-$WITH
    MPICC=$PREFIX/bin/mpicc_abi once "mpi4py-standard-$WITH" "$PYTHON" -m pip install -q --no-deps --no-binary mpi4py \
        --target "$MPI4PY_SITE" "mpi4py==$MPI4PY_VERSION" || die "mpi4py could not be built (see $CACHE/logs/fetch.log)"
    ranks 1 30 env PYTHONPATH="$MPI4PY_SITE" "$PYTHON" -c \
        'from mpi4py import MPI; assert MPI.Get_version() == (5, 0); print([line.split()[-1] for line in open("/proc/self/maps") if "libmpi_abi" in line][0])'
    grep -q "^$PREFIX/lib/libmpi_abi" "$LOG" || die "$(grep libmpi_abi "$LOG" | head -n 1) is mapped"
    mpi4py_tests "$@"
}
mpi4py_failures() {
    local list
    list=$(grep -aoE '^(FAIL|ERROR): [A-Za-z_0-9]+ \([a-zA-Z_0-9.]+' "$LOG" | sed -E 's/.*\(//' | sort -u)
    [ -n "$list" ] || { reason; return; }
    echo "$(grep -c . <<<"$list") tests fail: $(head -n 4 <<<"$list" | tr '\n' ' ')"
}

mpi4py_programs() {
    local n p2p="test_p2p_buf test_p2p_buf_matched test_p2p_obj test_p2p_obj_matched"
    local coll="test_cco_buf test_cco_obj test_cco_vec"
    local core=(test_comm test_comm_topo test_group test_info test_errhandler test_errorcode test_exceptions
        test_grequest test_request test_status test_session test_ulfm test_p2p_buf_part
        test_file test_io)
    # The suite without testGetFortranInfo, which asks for types that this wheel does not know and fails with MPICH 5.0.2 too.
    local without=(-x '*.testGetFortranInfo')
    prog mpi4py-import default mpi4py_import
    prog mpi4py-helloworld default mpi4py_hello 4
    prog mpi4py-ringtest default mpi4py_ring 4
    for n in 1 2 4; do
        prog mpi4py-p2p-$n default mpi4py_tests $n 120 $p2p
        prog mpi4py-coll-$n default mpi4py_tests $n 120 $coll
    done
    prog mpi4py-core-3 default mpi4py_tests 3 120 "${core[@]}"
    prog mpi4py-spawn-2 default mpi4py_tests 2 120 test_spawn test_dynproc
    for n in 1 2 3 4; do
        prog mpi4py-suite-$n slow mpi4py_tests $n 600 "${without[@]}"
    done
    for n in 1 3; do
        prog mpi4py-standard-$n slow mpi4py_standard $n 600 "${without[@]}"
    done
}
