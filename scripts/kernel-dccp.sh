#!/bin/sh
# Linux's own DCCP as a peer: boots Debian's Linux 6.1 in a virtual machine (no KVM needed), with kernel-dccp-peer.c as all
# of its userland. DCCP left Linux with 6.16.
#
#   kernel-dccp.sh fetch                 gets the kernel from Debian's packages; nothing is installed
#   kernel-dccp.sh NAMESPACE [LOGS]      runs it, as 10.78.0.2 behind a TAP device that has 10.78.0.1, in a network namespace
#                                        that is there already. What it is to do comes on standard input (the peer's source
#                                        says how), and it ends with that. LOGS: a directory for what the kernel says.
#
# Exits with 77, and says why, where something is missing that cannot be had.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cache=${CARGO_TARGET_DIR:-$here/../target}/kernel-dccp
modules="virtio_ring virtio virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci failover net_failover virtio_net
    dccp dccp_ipv4"
# Seconds after which it ends whatever happens.
lifetime=900

lacks() {
    echo "kernel-dccp.sh: $*" >&2
    exit 77
}

# Puts the newest one that apt knows into the working directory.
download() {
    name=$(apt-cache search --names-only '^linux-image-6\.1\.0-[0-9]+-amd64$' | cut -d ' ' -f 1 | sort -V | tail -n 1)
    [ -n "$name" ] && timeout 300 apt-get download -qq "$name" >&2
}

fetch() {
    [ -e "$cache/vmlinuz" ] && return
    command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || lacks "needs Debian's packages for the kernel"
    mkdir -p "$cache"
    work=$(mktemp -d "$cache/fetch.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    cd "$work"
    # The user whom apt downloads as, where there is one.
    chown _apt . 2>/dev/null || true
    download || { apt-get update -qq >&2 && download; } || lacks "no kernel from Debian's packages: is linux-image-6.1 there?"
    dpkg-deb -x linux-image-*.deb image
    for module in $modules; do
        find image/lib/modules -name "$module.ko" -exec mv {} . \;
        [ -e "$module.ko" ] || lacks "this kernel has no $module"
    done
    # Last, since it says that all is there.
    mv ./*.ko .. && mv image/boot/vmlinuz-* ../vmlinuz
    cd "$here"
}

initramfs() {
    mkdir -p "$1/root/proc" "$1/root/dev" "$1/root/modules"
    gcc -static -O2 -D_GNU_SOURCE -o "$1/root/init" "$here/kernel-dccp-peer.c"
    for module in $modules; do
        cp "$cache/$module.ko" "$1/root/modules/"
        echo "/modules/$module.ko" >>"$1/root/modules/list"
    done
    (cd "$1/root" && find . | cpio -o -H newc 2>/dev/null) >"$1/initramfs"
}

run() {
    namespace=$1
    logs=${2:-/tmp}
    for tool in qemu-system-x86_64:qemu-system-x86 cpio:cpio gcc:gcc ip:iproute2; do
        command -v "${tool%%:*}" >/dev/null || lacks "needs ${tool%%:*} (Debian: ${tool##*:})"
    done
    fetch
    work=$(mktemp -d)
    trap 'rm -rf "$work"; ip -n "$namespace" link delete kdccp0 2>/dev/null' EXIT
    trap 'exit 1' INT TERM HUP
    initramfs "$work"
    ip -n "$namespace" tuntap add dev kdccp0 mode tap
    ip -n "$namespace" address add 10.78.0.1/24 dev kdccp0
    ip -n "$namespace" link set dev kdccp0 addrgenmode none
    ip -n "$namespace" link set dev kdccp0 txqueuelen 20000 up
    # QEMU before 8.1 leaves the guest's memory barriers out if the machine can have one processor only. virtio then misses
    # that the guest has made room, and the network stands still for ever (QEMU's commit c914d46d0a64). Hence "maxcpus=2".
    # Who ends the input, ends the machine.
    { cat; echo poweroff; } | timeout -k 5 "$lifetime" ip netns exec "$namespace" \
        qemu-system-x86_64 -M q35 -cpu max -smp 1,maxcpus=2 -m 192 -nodefaults -display none -no-reboot \
        -kernel "$cache/vmlinuz" -initrd "$work/initramfs" -append 'console=ttyS0 loglevel=5 panic=1' \
        -serial "file:$logs/kernel.log" -chardev stdio,id=orders,signal=off -serial chardev:orders \
        -netdev tap,id=net,ifname=kdccp0,script=no,downscript=no -device virtio-net-pci,netdev=net,romfile=
}

case ${1:-} in
    fetch) fetch ;;
    "" | -*) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    *) run "$@" ;;
esac
