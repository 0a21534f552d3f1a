#!/bin/sh
# Makes small.h265, the video of the tests that read H.265, from ffmpeg's own test picture: CC0 1.0, like this script.
# What the tests rely on: one slice in a picture, B-pictures in a pyramid, open groups of pictures.
set -eu
cd "$(dirname "$0")"
ffmpeg -hide_banner -loglevel error -y -f lavfi -i testsrc2=size=128x96:rate=25 -t 2.4 -c:v libx265 \
    -x265-params "keyint=25:min-keyint=25:bframes=4:b-pyramid=1:ref=3:open-gop=1:log-level=none:info=0" -b:v 60k \
    -f hevc small.h265
