#!/usr/bin/env python3
"""Runs Timeous and plain TCP over real narrow links: half of a stream's rate, where a packet takes up to 1.5 round trips.

Needs root, `ffmpeg`, and a release build of `timeous-peer-trials` (or its path in `--trials`). Encodes `assets/clip.h264`
at three rates and prints, for each link, the decodable frames in percent of the best possible schedule without headers.
Exit code 1: a bound does not hold.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CLIP = ROOT / "assets" / "clip.h264"
# The stream's rate in kbit/s, and round-trip times in ms: a packet takes 0.25, 0.6 and 1.5 of them at half of the rate.
LINKS = [(400, (180, 75, 30)), (900, (80, 33, 13)), (2000, (36, 15, 6))]
PEERS = {
    "timeous": "Timeous over DCCP",
    "timeous-tcp": "Timeous over TCP",
    "tcp-drop-bbr": "TCP, BBR, the application drops",
    "tcp-drop": "TCP, CUBIC, the application drops",
}
SECONDS = 16
# Least percentage of the bound over DCCP, in the mean and on the worst link, and over TCP in the mean.
DCCP_MEAN, DCCP_WORST, TCP_MEAN = 90, 75, 75


def encode(kbps, out):
    """Encodes the clip at a rate. One thread: another number of them would be another stream."""
    path = out / f"{kbps}.h264"
    if not path.exists():
        rate = f"{kbps}k"
        command = ["ffmpeg", "-loglevel", "error", "-y", "-i", CLIP, "-r", "25", "-c:v", "libx264", "-threads", "1"]
        command += ["-preset", "veryfast", "-tune", "zerolatency", "-g", "30", "-bf", "0"]
        subprocess.run([*command, "-b:v", rate, "-maxrate", rate, "-bufsize", rate, path], check=True)
    return path


def shares(args, clip, round_trip):
    """Runs all peers over one link; returns each one's percentage of the bound."""
    out = args.out / f"{clip.stem}-{round_trip}"
    command = [args.trials, "--clip", clip, "--seconds", str(SECONDS), "--links", "bloat", "--deadline", "500ms"]
    command += ["--rtt", f"{round_trip}ms", "--seed", str(args.seed), "--seeds", str(args.seeds)]
    command += ["--peers", ",".join(PEERS), "--json", "--out", out]
    # Exit code 1 says that Timeous was not ahead: here the table tells.
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if ran.returncode > 1:
        sys.exit(f"{command[0]} ended with {ran.returncode}")
    found = json.loads(ran.stdout)
    bound, all_shares = found["bounds"]["bloat"], {peer: [] for peer in PEERS}
    for run in found["runs"]:
        if run["problem"]:
            sys.exit(f"{run['peer']}: {run['problem']}")
        all_shares[run["peer"]].append(100 * run["decodable"] / run["frames"] / bound)
    return {peer: statistics.mean(each) for peer, each in all_shares.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="first seed of the links' randomness")
    parser.add_argument("--seeds", type=int, default=2, help="number of consecutive seeds")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("narrow-out"), help="for clips and captures")
    parser.add_argument("--trials", default=ROOT / "target" / "release" / "timeous-peer-trials", help="the program")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    table = {peer: [] for peer in PEERS}
    heads = []
    for kbps, round_trips in LINKS:
        clip = encode(kbps, args.out)
        for round_trip in round_trips:
            print(f"{kbps // 2} kbit/s, {round_trip} ms", file=sys.stderr)
            heads.append(f"{kbps // 2}, {round_trip}")
            for peer, share in shares(args, clip, round_trip).items():
                table[peer].append(share)
    print("| Link, kbit/s, and round trip, ms |", " | ".join(heads), "| mean |")
    print("|---" * (len(heads) + 2) + "|")
    for peer, name in PEERS.items():
        each = [f"{share:.1f}" for share in [*table[peer], statistics.mean(table[peer])]]
        print(f"| {name} |", " | ".join(each), "|")
    dccp, tcp = table["timeous"], table["timeous-tcp"]
    plain = [max(pair) for pair in zip(table["tcp-drop"], table["tcp-drop-bbr"])]
    claims = [
        ("DCCP, mean", statistics.mean(dccp), DCCP_MEAN),
        ("DCCP, worst", min(dccp), DCCP_WORST),
        ("TCP, mean", statistics.mean(tcp), TCP_MEAN),
        ("TCP, least beyond a plain application", min(own - other for own, other in zip(tcp, plain)), 0),
    ]
    for name, share, least in claims:
        print(f"{name}: {share:.1f} ({'holds' if share >= least else 'does NOT hold'}: at least {least})")
    return int(any(share < least for _, share, least in claims))


if __name__ == "__main__":
    sys.exit(main())
