# Debian's binaries for MPICH (linked to libmpich.so.12): NetPIPE, NWChem, ScaLAPACK's and OpenCoarrays'
# tests; read by scripts/programs.

debian_fetch() {
    local scalapack
    scalapack=$(apt_lists && apt-cache depends scalapack-mpi-test | grep -o 'libscalapack-mpich[^ <>]*' | sort -u | head -n 1)
    packages mpich "netpipe-mpich2 $scalapack scalapack-test-common mpich" scalapack-mpi-test || die "Debian's packages could not be fetched"
}

netpipe_check() { # OPTION...
    debian_fetch
    local bin=$DEBIAN/bin/NPmpich2 lines
    ours "$bin"
    ranks 2 60 "$bin" -i -u 300000 "$@"
    grep -aq 'Integrity check failed' "$LOG" && die "$(grep -a -m 1 'Integrity check failed' "$LOG")"
    lines=$(grep -ac 'Integrity check passed' "$LOG")
    [ "$lines" -ge 20 ] || die "only $lines sizes were checked"
    say "$lines sizes intact"
}
netpipe_modes() {
    debian_fetch
    local bin=$DEBIAN/bin/NPmpich2 options lines
    ours "$bin"
    # Ping-pong, preposted receives, synchronous sends, both directions at once, one direction, cold cache.
    for options in "" -a -S "-2 -a" -s -I; do
        ranks 2 60 "$bin" -n 10 -u 4200000 $options
        lines=$(grep -ac ' bytes .* Mbps in ' "$LOG")
    done
    [ "$lines" -ge 600 ] || die "only $lines of the measurements were made"
    say "$lines measurements in 6 modes"
}
# scalapack BINARY DATA RANKS PASSED: the program's own counts must say PASSED passed and none failed.
scalapack() {
    debian_fetch
    local bin passed failed
    bin=$(find "$DEBIAN/lib" -path "*mpich-tests/*" -name "$1" -type f | head -n 1)
    [ -x "$bin" ] || die "scalapack-mpi-test has no $1"
    cp "$DEBIAN/share/scalapack/$2" . || die "scalapack-test-common has no $2"
    ours "$bin"
    ranks "$3" 120 "$bin"
    read -r passed failed < <(scalapack_counts)
    [ "$failed" = 0 ] && [ "$passed" = "$4" ] || die "$passed passed, $failed failed, expected $4 and 0"
    grep -qi 'END OF TESTS' "$LOG" || die "the program did not reach its end"
    say "$passed passed, $failed failed"
}
# Sums the counts of both kinds of summary: sentences (LU, QR) and a table by subroutine (PBLAS).
scalapack_counts() {
    awk '/tests completed and passed/ { p += $1 }
         /tests completed and failed/ { f += $1 }
         /^ *\|  P[A-Z0-9]+ / { p += $4; f += $5 }
         END { print p + 0, f + 0 }' "$LOG"
}
# Every real-valued test program that counts its results and whose input fits two processes: the eigenvalue
# programs ask for larger grids, and on four processes psporfs ends in a deadlock of its own under any MPI.
scalapack_all() { # RANKS
    debian_fetch
    local bin name rc passed failed total=0
    cp "$DEBIAN"/share/scalapack/*.dat "$DEBIAN"/share/scalapack/PBLAS/*.dat . || die "no input files"
    for bin in $(find "$DEBIAN/lib/" -path '*mpich-tests/*' -type f \( -name 'x[sd]*' -o -name '[sd]pb?tst' \) ! -path '*TIMING*' | sort); do
        name=${bin##*/}
        case $name in *sep | *svd | *syevr | *hseqr) continue ;; esac
        echo "== $name"
        env "$MARK" LD_LIBRARY_PATH="$RUNPATHS" timeout -k 5 120 "$MPIRUN" -n "$1" "$bin" >"$name.out" 2>&1
        rc=$?
        cat "$name.out"
        [ $rc = 0 ] || die "$name ended with code $rc: $(LOG=$name.out reason)"
        read -r passed failed < <(LOG=$name.out scalapack_counts)
        [ "$failed" = 0 ] && [ "$passed" -gt 0 ] || die "$name: $passed passed, $failed failed"
        total=$((total + passed))
    done
    [ "$total" -ge 2000 ] || die "only $total tests"
    say "$total passed, 0 failed"
}
# Coarray Fortran: every image-to-image access is one-sided communication. Left out: programs that let an image fail (this
# build of OpenCoarrays does not support it) and three that fail under any MPI.
coarrays() {
    packages coarrays libgfortran5 libcoarrays-mpich-dev || die "Debian's packages could not be fetched"
    local bin name images passed=0
    for bin in "$DEBIAN"/lib/open-coarrays/mpich/bin/OpenCoarrays-*-tests/*; do
        name=${bin##*/} images=4
        case $name in
            image_fail* | increment_my_neighbor | issue-488* | issue-552*) continue ;;
            sync_team | team_number) images=8 ;;
            issue-515*) images=2 ;;
        esac
        [ -x "$bin" ] || continue
        [ $passed -gt 0 ] || ours "$bin"
        echo "== $name"
        ranks $images 30 "$bin" >"$name.out" 2>&1
        cat "$name.out"
        grep -qi 'test passed' "$name.out" || [ "$name" = coarray_burgers_pde ] || [ "$name" = issue-493-coindex-slice ] || die "$name does not say that it passed"
        passed=$((passed + 1))
    done
    [ $passed -ge 75 ] || die "only $passed programs"
    say "$passed programs"
}
# Quantum chemistry on Global Arrays: tens of thousands of windows, locks and accumulates; any number of ranks must find
# the same energies.
nwchem() {
    packages nwchem nwchem-mpich nwchem-data || die "Debian's packages could not be fetched"
    local n first='' energies
    export NWCHEM_BASIS_LIBRARY=$DEBIAN/share/nwchem/libraries/ OMP_NUM_THREADS=1
    ours "$DEBIAN/bin/nwchem.mpich"
    printf '%s\n' 'start water' 'geometry units angstrom' 'O 0 0 0.117' 'H 0 0.757 -0.467' 'H 0 -0.757 -0.467' end \
        basis '* library 6-31g*' end 'task scf optimize' 'task dft energy' 'task mp2 energy' >water.nw
    for n in 1 2 4; do
        ranks $n 60 "$DEBIAN/bin/nwchem.mpich" water.nw >"$n.out" 2>&1
        cat "$n.out"
        energies=$(awk '/Total (SCF|DFT|MP2) energy/ { last[$2] = sprintf("%.6f", $NF) }
                        END { print last["SCF"], last["DFT"], last["MP2"] }' "$n.out")
        [ -n "$first" ] || first=$energies
        [ "$energies" = "$first" ] || die "$n ranks find $energies, 1 rank $first"
    done
    [ "$first" = "-76.010747 -75.843459 -76.198367" ] || die "the energies are $first"
    say "SCF, DFT and MP2 energies of 1, 2 and 4 ranks: $first"
}

debian_programs() {
    prog netpipe-check default netpipe_check
    prog netpipe-check-preposted default netpipe_check -a
    prog netpipe-modes default netpipe_modes
    prog scalapack-xdlu default scalapack xdlu LU.dat 2 60
    prog scalapack-xdqr default scalapack xdqr QR.dat 2 88
    prog scalapack-dpb1tst default scalapack dpb1tst PBLAS/PDBLAS1TST.dat 2 64
    prog coarrays default coarrays
    prog nwchem slow nwchem
    prog scalapack-all-2 slow scalapack_all 2
}
