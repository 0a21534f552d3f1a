"""Encodes for `timeous send --adapt x264`, by GStreamer: H.264 on standard output, as fast as it is captured.

TIMEOUS_SOURCE is a file, a camera's device, or "test"; TIMEOUS_BITRATE the bitrate to begin with, in bit/s. On standard
input come lines: "bitrate N" in bit/s, which holds from the next frame on, and "keyframe". The program exits when
standard input ends. With TIMEOUS_BITRATES and TIMEOUS_OUTPUTS it makes several encodings of each picture, and
"keyframe N" asks for one in the Nth encoding.
"""

import os
import sys
import threading

try:
    import gi

    gi.require_version("Gst", "1.0")
    gi.require_version("GstVideo", "1.0")
    from gi.repository import Gst, GstVideo
except (ImportError, ValueError) as error:
    sys.exit(f"--adapt x264 needs GStreamer for Python ({error}); "
             "Debian: apt install python3-gi gir1.2-gst-plugins-base-1.0 gstreamer1.0-plugins-{base,good,ugly}")

# Access unit delimiter (H.264 §7.3.2.4): it ends a frame, so that a reader need not wait for the next one.
DELIMITER = b"\x00\x00\x00\x01\x09\xf0"
FPS = 25


def source():
    """The pipeline's beginning."""
    name = os.environ["TIMEOUS_SOURCE"]
    if name == "test":
        # A moving picture that takes its bitrate, whatever that is.
        return "videotestsrc is-live=true pattern=zone-plate kx2=12 ky2=12 kt=2 ! video/x-raw,width=640,height=360"
    if name.startswith("/dev/"):
        return f"v4l2src device={name}"
    return f'filesrc location="{name}" ! decodebin ! identity sync=true'


def kbps(bits):
    """As the encoder takes it."""
    return max(1, int(bits) // 1000)


def encodings():
    """Bitrates, and where they go to."""
    if "TIMEOUS_OUTPUTS" in os.environ:
        outputs = [os.open(name, os.O_WRONLY) for name in os.environ["TIMEOUS_OUTPUTS"].split()]
        return list(zip(os.environ["TIMEOUS_BITRATES"].split(), outputs))
    return [(os.environ["TIMEOUS_BITRATE"], sys.stdout.fileno())]


def encoder(number, bitrate):
    """The pipeline's end, from pictures to a sink."""
    # A frame takes at most an eighth of a second of the bitrate, so that no frame is a queue.
    return (f"pictures. ! queue max-size-buffers=4 ! x264enc name=encoder{number} tune=zerolatency speed-preset=veryfast "
            f"sliced-threads=false threads=1 bframes=0 vbv-buf-capacity=125 key-int-max={4 * FPS} byte-stream=true aud=false "
            f"bitrate={kbps(bitrate)} ! video/x-h264,stream-format=byte-stream,alignment=au "
            f"! appsink name=sink{number} sync=false max-buffers=4")


def forward(sink, output):
    """Writes what is encoded."""
    with open(output, "wb", closefd=False) as out:
        while True:
            sample = sink.emit("pull-sample")
            if sample is None:
                return
            buffer = sample.get_buffer()
            try:
                out.write(buffer.extract_dup(0, buffer.get_size()) + DELIMITER)
                out.flush()
            except BrokenPipeError:
                os._exit(0)


def main():
    Gst.init(None)
    ends = encodings()
    pipeline = Gst.parse_launch(
        f"{source()} ! videoconvert ! videorate ! video/x-raw,format=I420,framerate={FPS}/1 ! tee name=pictures "
        + " ".join(encoder(number, bitrate) for number, (bitrate, _) in enumerate(ends)))
    encoders, sinks = ([pipeline.get_by_name(f"{kind}{number}") for number in range(len(ends))]
                       for kind in ("encoder", "sink"))

    def obey():
        for line in sys.stdin:
            words = line.split()
            if words[:1] == ["bitrate"] and len(words) == 2:
                encoders[0].set_property("bitrate", kbps(words[1]))
            elif words[:1] == ["keyframe"]:
                event = GstVideo.video_event_new_upstream_force_key_unit(Gst.CLOCK_TIME_NONE, True, 0)
                encoders[int(words[1]) - 1 if len(words) == 2 else 0].get_static_pad("src").send_event(event)
        os._exit(0)

    threading.Thread(target=obey, daemon=True).start()
    pipeline.set_state(Gst.State.PLAYING)
    readers = [threading.Thread(target=forward, args=(sink, output), daemon=True)
               for sink, (_, output) in zip(sinks, ends)]
    for reader in readers:
        reader.start()
    message = pipeline.get_bus().timed_pop_filtered(Gst.CLOCK_TIME_NONE, Gst.MessageType.ERROR | Gst.MessageType.EOS)
    if message.type == Gst.MessageType.ERROR:
        pipeline.set_state(Gst.State.NULL)
        sys.exit(f"--adapt x264: {message.parse_error()[0].message}")
    # What has been encoded goes out first.
    for reader in readers:
        reader.join()
    pipeline.set_state(Gst.State.NULL)


try:
    main()
except gi.repository.GLib.Error as error:
    sys.exit(f"--adapt x264: {error.message}")
