# Fetching programs and libraries into the cache; read by scripts/programs.
# Each download leaves a stamp when it is complete, so that an interrupted one is repeated.

DEBIAN=$CACHE/debian/usr
PYTHON=$CACHE/venv/bin/python

# once STAMP COMMAND...: runs the command unless an earlier run has completed it.
once() {
    local stamp=$CACHE/stamps/$1
    shift
    [ -e "$stamp" ] && return 0
    "$@" >>"$CACHE/logs/fetch.log" 2>&1 || return 1
    mkdir -p "$CACHE/stamps" && touch "$stamp"
}

# need COMMAND PACKAGE: a command of the system, installed from Debian if this is root.
need() {
    command -v "$1" >/dev/null && return 0
    if [ "$(id -u)" = 0 ]; then
        apt_lists && apt-get install -y --no-install-recommends "$2" >>"$CACHE/logs/fetch.log" 2>&1 && return 0
    fi
    echo "programs: $1 is missing; install it with: sudo apt-get install $2" >&2
    return 1
}
apt_lists() {
    apt-cache show libc6 >/dev/null 2>&1 && return 0
    [ "$(id -u)" = 0 ] && apt-get update >>"$CACHE/logs/fetch.log" 2>&1 && return 0
    echo "programs: apt knows no packages; run: sudo apt-get update" >&2
    return 1
}

make_venv() {
    rm -rf "$CACHE/venv"
    python3 -m venv "$CACHE/venv" && return 0
    [ "$(id -u)" = 0 ] || { echo "programs: run: sudo apt-get install python3-venv" >&2; return 1; }
    apt_lists && apt-get install -y --no-install-recommends python3-venv && python3 -m venv "$CACHE/venv"
}
# wheel NAME VERSION: installs one wheel alone; its files lie in $CACHE/pypi/NAME.
wheel() {
    once "venv" make_venv &&
        once "pypi-$1-$2" install_wheel "$1" "$2" && return 0
    echo "programs: PyPI $1 $2 could not be installed (see $CACHE/logs/fetch.log)" >&2
    return 1
}
install_wheel() {
    rm -rf "$CACHE/pypi/$1"
    "$PYTHON" -m pip install -q --no-deps --ignore-installed --only-binary :all: --prefix "$CACHE/pypi/$1" "$1==$2"
}
# site NAME: the folder of Python modules inside such a wheel.
site() { echo "$CACHE/pypi/$1"/lib/python*/site-packages; }

# packages STAMP "NAMES" "ALONE": unpacks Debian packages: NAMES with what they depend on and this system
# lacks, ALONE without.
packages() {
    need apt-get apt && apt_lists && once "debian-$1" unpack "$2" "$3" && return 0
    echo "programs: Debian packages of '$1' could not be fetched (see $CACHE/logs/fetch.log)" >&2
    return 1
}
unpack() {
    local names folder=$CACHE/deb-files file
    # What apt would install, without installing it: this needs no root.
    names=$(apt-get -y -qq --no-install-recommends --print-uris install $1 | awk '{ print $2 }' | cut -d _ -f 1)
    mkdir -p "$folder" "$CACHE/debian"
    (cd "$folder" && rm -f ./*.deb && apt-get download $(printf '%s\n' $names $1 $2 | sort -u)) || return 1
    for file in "$folder"/*.deb; do
        dpkg -x "$file" "$CACHE/debian" || return 1
    done
    rm -rf "$folder"
    # One name for the folder of libraries, whatever the architecture.
    local triplet
    triplet=$(gcc -print-multiarch)
    mkdir -p "$DEBIAN/lib/$triplet"
    local entry
    for entry in "$DEBIAN/lib/$triplet"/*; do
        ln -sfn "$triplet/${entry##*/}" "$DEBIAN/lib/${entry##*/}"
    done
}

# provide: what every recipe needs: MPICH to compare with and to compile binaries with, and the library under test.
provide() {
    need gcc gcc && need python3 python3 || return 1
    wheel mpich 5.0.2 || return 1
    MPICH=$CACHE/pypi/mpich
    if [ "$WITH" = mpich ]; then
        PREFIX=$MPICH COMPAT=$CACHE/compat-mpich
        once compat-mpich make_compat || return 1
    else
        COMPAT=$PREFIX/lib/compat
        [ -x "$PREFIX/bin/mpirun" ] || { echo "programs: no library in $PREFIX; run scripts/install --prefix $PREFIX" >&2; return 1; }
        [ -e "$COMPAT/libmpich.so.12" ] || { echo "programs: $COMPAT/libmpich.so.12 is missing" >&2; return 1; }
    fi
}
# The baseline's stand-in for Debian's libmpich.so.12, as nearmpi has one in lib/compat.
make_compat() {
    mkdir -p "$COMPAT" &&
        echo 'int stands_in_for_libmpich;' | gcc -shared -x c - -x none -o "$COMPAT/libmpich.so.12" \
            -Wl,-soname,libmpich.so.12 -Wl,--no-as-needed "$MPICH/lib/libmpi.so.12"
}
