#!/bin/sh
# Makes clip.h264, the video of the demo and of the tests, from nothing but ffmpeg's own signal sources.
# The picture is generated, so there is no author's right in it: CC0 1.0, like this script.
#
# What the tests and the demo rely on:
#   one slice a frame, closed GOPs, SPS and PPS before every IDR frame (each can be joined at);
#   I, P and B frames, B frames never referred to, one reference frame: "the previous reference frame" is then
#   exactly what a frame depends on;
#   an IDR frame at every scene cut, of which there are five;
#   a rate that is even over a second (VBV), so that a bottleneck can be put beside it.
set -eu
cd "$(dirname "$0")"

size=640x360
fps=30
scene=3 # seconds

ffmpeg -hide_banner -loglevel error -y -filter_complex "
    mandelbrot=size=$size:rate=$fps:start_scale=0.6:end_scale=0.002:end_pts=250:maxiter=900,
        hue=H='0.6*t':s=1.3,trim=duration=$scene,setpts=PTS-STARTPTS,format=yuv420p[zoom];
    testsrc2=size=$size:rate=$fps,rotate=a='0.35*sin(1.3*t)':fillcolor=gray,
        noise=alls=9:allf=t,trim=duration=$scene,setpts=PTS-STARTPTS,format=yuv420p[card];
    life=size=320x180:rate=$fps:mold=12:ratio=0.11:seed=7:death_color=#a03020:life_color=#f0e0a0:mold_color=#203050,
        scale=$size:flags=bicubic,scroll=horizontal=0.004:vertical=0.002,
        trim=duration=$scene,setpts=PTS-STARTPTS,format=yuv420p[life];
    mandelbrot=size=960x540:rate=$fps:start_x=-0.1592:start_y=-1.0317:start_scale=0.3:end_scale=0.02:end_pts=140:
        maxiter=500:outer=normalized_iteration_count,rotate=a='0.5*t':ow=640:oh=360,
        hue=H='1.5*t',trim=duration=$scene,setpts=PTS-STARTPTS,format=yuv420p[spin];
    cellauto=size=$size:rate=$fps:rule=30:seed=5:scroll=1,gblur=sigma=1.4,
        rotate=a='0.5*t':fillcolor=teal,noise=alls=7:allf=t,format=yuv444p,colorize=hue=200:saturation=0.4:mix=0.6,
        trim=start=14:duration=$scene,setpts=PTS-STARTPTS,format=yuv420p[cells];
    mandelbrot=size=1280x720:rate=$fps:start_x=-0.7436:start_y=-0.1318:start_scale=0.01:end_scale=0.008:maxiter=600,
        crop=640:360:x='320+260*sin(1.7*t)':y='180+150*cos(1.3*t)',
        trim=duration=$scene,setpts=PTS-STARTPTS,format=yuv420p[pan];
    [zoom][card][life][spin][cells][pan]concat=n=6:v=1:a=0[v]" \
    -map '[v]' -c:v libx264 -preset slow -profile:v main -pix_fmt yuv420p \
    -force_key_frames 'expr:gte(t,n_forced*'$scene')' -b:v 2550k -maxrate 2700k -bufsize 470k -threads 1 \
    -x264-params "bframes=2:b-adapt=0:b-pyramid=none:weightp=0:weightb=0:ref=1:keyint=60:min-keyint=1:scenecut=40:\
open-gop=0:sliced-threads=0:slices=1:repeat-headers=1:aud=0:force-cfr=1:rc-lookahead=60" \
    -f h264 clip.h264
