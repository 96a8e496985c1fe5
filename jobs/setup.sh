#!/usr/bin/env bash
# Prepares this machine to build and test apo; says what it does, and does nothing twice.
#
#   bash jobs/setup.sh                  system packages, and .venv with LibTorch for CPUs
#   APO_TORCH=cuda bash jobs/setup.sh   the same with .venv-cuda (LibTorch for CUDA, 5.4 GB)
#
# As root, or with sudo that asks no password, missing Debian packages are installed. Otherwise the
# script lists what is missing, by Debian package and Spack name, and stops with exit code 69.
# APO_SLURM=1 also installs a SLURM for tests/slurm; that is the default for root where no systemd
# runs, as in containers and CI. Without it these tests are skipped; APO_SLURM=0 leaves it out.
# APO_PYTHON names another Python (3.10 to 3.14) than python3.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { echo "setup: $*"; }

case "${APO_TORCH:-cpu}" in
  cpu)
    venv=.venv
    # torch is LibTorch; the others are oracles that tests compare with.
    pins=(torch==2.13.0 transformers==5.24.0 tokenizers==0.23.3 safetensors==0.8.0 peft==0.21.2
          gguf==0.19.0 h5py==3.16.0 numpy==2.4.6 scipy==1.17.1)
    ;;
  cuda)
    venv=.venv-cuda
    pins=(torch==2.14.1 numpy==2.4.6)
    ;;
  *)
    say "APO_TORCH: expected cpu or cuda, found '$APO_TORCH'" >&2
    exit 64
    ;;
esac

packages=(build-essential cmake ninja-build ccache pkg-config git python3-venv
          libopenmpi-dev openmpi-bin libhdf5-dev hdf5-tools libglpk-dev libonig-dev libicu-dev
          nlohmann-json3-dev libspdlog-dev libfmt-dev libboost-program-options-dev zlib1g-dev
          libssl-dev libgtest-dev libgmock-dev
          libpagmo-dev libboost-serialization-dev libeigen3-dev libtbb-dev)
# For tests/slurm only: never a reason to stop. Where systemd runs, these start services.
slurm_packages=(slurm-wlm munge iproute2)

# What the build needs, one a line: name | Debian package | Spack or module name | probe.
needs() {
  cat <<'TABLE'
C++20 compiler (g++ 12 or later)|build-essential|gcc@12:|compiles_cxx20
CMake 3.25 or later|cmake|cmake@3.25:|cmake_is_new
Ninja|ninja-build|ninja|command -v ninja
pkg-config|pkg-config|pkgconf|command -v pkg-config
git|git|git|command -v git
Python 3.10 to 3.14 with venv|python3-venv|python@3.10:3.14|python_is_good
MPI (Open MPI)|libopenmpi-dev openmpi-bin|openmpi|command -v mpicc && command -v mpirun
HDF5 for C, with tools|libhdf5-dev hdf5-tools|hdf5+hl|{ pkg-config --exists hdf5 || command -v h5cc; } && command -v h5dump
GLPK|libglpk-dev|glpk|has_header glpk.h
Oniguruma|libonig-dev|oniguruma|pkg-config --exists oniguruma
ICU|libicu-dev|icu4c|pkg-config --exists icu-uc
nlohmann-json|nlohmann-json3-dev|nlohmann-json|has_header nlohmann/json.hpp
spdlog|libspdlog-dev|spdlog+shared fmt_external=True|has_header spdlog/version.h
fmt|libfmt-dev|fmt|has_header fmt/format.h
Boost.Program_options|libboost-program-options-dev|boost+program_options|has_header boost/program_options.hpp
zlib|zlib1g-dev|zlib|has_header zlib.h
OpenSSL|libssl-dev|openssl|has_header openssl/evp.h
GoogleTest|libgtest-dev libgmock-dev|googletest+gmock|has_header gtest/gtest.h && has_header gmock/gmock.h
pagmo 2|libpagmo-dev libboost-serialization-dev libeigen3-dev libtbb-dev|pagmo2|has_header pagmo/utils/hypervolume.hpp
TABLE
}

python="${APO_PYTHON:-python3}"
has_header() { echo "#include <$1>" | "${CXX:-g++}" -std=c++20 -E -x c++ - >/dev/null; }
compiles_cxx20() {
  printf '#if __cplusplus < 202002L\n#error\n#endif\n#include <span>\n' |
    "${CXX:-g++}" -std=c++20 -E -x c++ - >/dev/null
}
cmake_is_new() {
  local version
  version=$(cmake --version | awk 'NR == 1 {print $3}')
  [ "$(printf '%s\n' 3.25 "$version" | sort -V | head -n 1)" = 3.25 ]
}
python_is_good() {
  "$python" -c 'import ensurepip, sys, venv; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 14))'
}

missing=()
is_debian() { command -v dpkg-query >/dev/null && command -v apt-get >/dev/null; }
if is_debian; then
  for package in "${packages[@]}"; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)" = installed ] ||
      missing+=("$package")
  done
else
  missing=(unknown) # no dpkg to ask: the probes decide
fi

if [ ${#missing[@]} -gt 0 ]; then
  as_root=none
  if [ "$(id -u)" = 0 ]; then
    as_root=
  elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    as_root=sudo
  fi
  if is_debian && [ "$as_root" != none ]; then
    say "installing Debian packages: ${missing[*]}"
    log=$(mktemp)
    if ! { $as_root apt-get update -q && $as_root env DEBIAN_FRONTEND=noninteractive \
           apt-get install -q -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
      cat "$log" >&2
      say "apt-get failed, see above" >&2
      exit 74
    fi
    rm -f "$log"
  fi

  absent=()
  while IFS='|' read -r name debian spack probe; do
    ( eval "$probe" ) >/dev/null 2>&1 </dev/null ||
      absent+=("$(printf '%-36s %-46s %s' "$name" "$debian" "$spack")")
  done < <(needs)
  if [ ${#absent[@]} -gt 0 ]; then
    {
      say "missing on this machine, and not root:"
      printf '  %-36s %-46s %s\n' "what" "Debian package" "Spack (or the like-named module)"
      printf '  %s\n' "${absent[@]}"
      say "load or install these and run this script again (CPATH, PKG_CONFIG_PATH and"
      say "CMAKE_PREFIX_PATH are honoured, as Spack and environment modules set them)"
    } >&2
    exit 69
  fi
  say "system packages are complete"
fi

slurm=${APO_SLURM:-}
if [ -z "$slurm" ] && [ "$(id -u)" = 0 ] && ! [ -d /run/systemd/system ]; then
  slurm=1
fi
if [ "$slurm" = 1 ] && is_debian && ! command -v slurmctld >/dev/null; then
  say "installing Debian packages for tests/slurm: ${slurm_packages[*]}"
  as_root=
  [ "$(id -u)" = 0 ] || as_root="sudo -n"
  log=$(mktemp)
  # RUNLEVEL=1: init scripts are not started by their packages.
  if ! { $as_root apt-get update -q && $as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
         apt-get install -q -y --no-install-recommends "${slurm_packages[@]}"; } >"$log" 2>&1; then
    tail -n 5 "$log" >&2
    say "SLURM cannot be installed: tests/slurm will be skipped" >&2
  fi
  rm -f "$log"
fi

stamp="$venv/apo-pins.txt"
wanted="$("$python" -c 'import sys; print(sys.version.split()[0], sys.base_prefix)') ${pins[*]}"
if [ "$(cat "$stamp" 2>/dev/null || true)" = "$wanted" ]; then
  say "$venv is up to date"
  exit 0
fi
if ! python_is_good; then
  say "$python: expected Python 3.10 to 3.14 with venv, found" \
      "$("$python" --version 2>&1 || true); set APO_PYTHON" >&2
  exit 69
fi
if ! [ -x "$venv/bin/python" ] ||
   [ "$("$venv/bin/python" -c 'import sys; print(sys.version_info[:2])' 2>/dev/null || true)" != \
     "$("$python" -c 'import sys; print(sys.version_info[:2])')" ]; then
  say "making the Python environment $venv with $("$python" --version)"
  rm -rf "$venv"
  "$python" -m venv "$venv"
fi
say "installing into $venv: ${pins[*]}"
if ! "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "${pins[@]}" 2>&1 |
     { grep -v 'is ignored: it is neither a file nor a directory' || true; }; then
  say "pip failed, see above" >&2
  exit 74
fi
echo "$wanted" >"$stamp"
say "$venv is ready"
