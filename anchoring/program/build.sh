#!/bin/sh
# Builds memory_ledger.so with stock Debian packages, byte for byte the same
# anywhere: rustc-web, libstd-rust-web-dev-bpf, llvm-19, binutils-bpf.
#
#   build.sh [OUTPUT]       default: memory_ledger.so beside this script
#   build.sh --check        names the tools and exits 0 where they are here, 3 where not
#
# RUSTC, LLVM_MC and BPF_LD name other programs, for another distribution; the
# bytes are only promised for the versions that TOOLCHAIN names.
set -eu
cd "$(dirname "$0")"

RUSTC=${RUSTC:-/usr/bin/rustc}
LLVM_MC=${LLVM_MC:-llvm-mc-19}
BPF_LD=${BPF_LD:-bpf-ld}

missing() {
  echo "build.sh: $1 is missing: apt-get install rustc-web libstd-rust-web-dev-bpf llvm-19 binutils-bpf" >&2
  exit 3
}
for tool in "$RUSTC" "$LLVM_MC" "$BPF_LD"; do
  command -v "$tool" >/dev/null 2>&1 || missing "$tool"
done
[ -d "$("$RUSTC" --print sysroot)/lib/rustlib/bpfel-unknown-none/lib" ] || missing "the standard library for bpfel-unknown-none"
if [ "${1:-}" = --check ]; then
  "$RUSTC" --version
  "$LLVM_MC" --version | sed -n 's/^ *\(.*LLVM version.*\)/\1/p'
  "$BPF_LD" --version | head -n 1
  exit 0
fi

out=${1:-memory_ledger.so}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

"$RUSTC" --edition 2021 --crate-name memory_ledger --target bpfel-unknown-none --crate-type cdylib \
  -C opt-level=3 -C lto=fat -C panic=abort -C codegen-units=1 -C target-cpu=v3 \
  -C llvm-args=-bpf-stack-size=4096 --remap-path-prefix "$PWD"=. \
  --emit=asm -o "$tmp/p.s" src/program.rs
"$LLVM_MC" -triple=bpfel -mcpu=v3 -filetype=obj "$tmp/p.s" -o "$tmp/p.o"
"$BPF_LD" -n -z max-page-size=8 -s -T sbpf-v3.ld -o "$tmp/p.so" "$tmp/p.o"
# e_flags, at byte 48 of the header, says which sBPF this is.
printf '\003\000\000\000' | dd of="$tmp/p.so" bs=1 seek=48 conv=notrunc status=none
chmod 644 "$tmp/p.so"
if [ -n "${KEEP_ASM:-}" ]; then cp "$tmp/p.s" "$KEEP_ASM"; fi
mv "$tmp/p.so" "$out"
