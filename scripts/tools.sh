#!/bin/sh
# Makes sure that the programs the tests use as peers and judges are there, what the feature `bpf` is compiled with, and the
# kernel whose DCCP ours is held against: installs them where it may, else says what to install. The tests that need one
# that is missing are skipped, each by name.
set -u
missing=""
for pair in tshark:tshark ffmpeg:ffmpeg ip:iproute2 curl:curl python3:python3 clang:clang make:make pkg-config:pkg-config \
    c++:g++ nm:binutils groff:groff qemu-system-x86_64:qemu-system-x86 cpio:cpio gcc:gcc nft:nftables gst-launch-1.0:gstreamer1.0-tools srt-live-transmit:srt-tools iperf3:iperf3; do
    command -v "${pair%%:*}" >/dev/null 2>&1 || missing="$missing ${pair##*:}"
done
for pair in bpf/bpf_helpers.h:libbpf-dev libelf.h:libelf-dev zlib.h:zlib1g-dev; do
    [ -e "/usr/include/${pair%%:*}" ] || missing="$missing ${pair##*:}"
done
# The encoder of `send --adapt x264`, for the distribution's own Python.
for pair in lib/python3/dist-packages/gi:python3-gi lib/*/girepository-1.0/GstVideo-1.0.typelib:gir1.2-gst-plugins-base-1.0 \
    lib/*/gstreamer-1.0/libgstvideotestsrc.so:gstreamer1.0-plugins-base lib/*/gstreamer-1.0/libgstx264.so:gstreamer1.0-plugins-ugly; do
    ls /usr/${pair%%:*} >/dev/null 2>&1 || missing="$missing ${pair##*:}"
done
required=true
[ "${TIMEOUS_REQUIRE_ALL:-}" = 1 ] || required=false

install() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 || return 1
    echo "installing$missing"
    # shellcheck disable=SC2086 # one word a package
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $missing >/dev/null
}

if [ -n "$missing" ] && ! install; then
    echo "please install:$missing (Debian: sudo apt-get install$missing); tests that need them are skipped until then" >&2
    ! $required || exit 1
fi
"$(dirname "$0")/kernel-dccp.sh" fetch || ! $required
