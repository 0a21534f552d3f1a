//! Containers that ffmpeg writes, as transport streams that ffmpeg reads: the same pictures, in step with the sound.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

use timeous_media::container::{Container, ContainerError, H265Stream, Muxed};
use timeous_media::mp4::TsMp4Writer;

/// Containers: name of the file, and ffmpeg's options.
const CASES: [(&str, &[&str]); 8] = [
    ("bframes.mp4", &["-c:v", "libx264", "-bf", "2", "-c:a", "aac"]),
    ("index-first.mp4", &["-c:v", "libx264", "-bf", "3", "-c:a", "aac", "-movflags", "faststart"]),
    ("fragments.mp4", &["-c:v", "libx264", "-bf", "2", "-c:a", "aac", "-movflags", "frag_keyframe+empty_moov"]),
    ("base.mp4", &["-c:v", "libx264", "-c:a", "libopus", "-movflags", "frag_keyframe+empty_moov+default_base_moof"]),
    ("hevc.mp4", &["-c:v", "libx265", "-x265-params", "log-level=none:bframes=3", "-c:a", "eac3"]),
    ("hevc.mkv", &["-c:v", "libx265", "-x265-params", "log-level=none:bframes=4", "-c:a", "libopus"]),
    ("mpeg2.mkv", &["-c:v", "mpeg2video", "-bf", "2", "-c:a", "ac3"]),
    ("mp3.mkv", &["-c:v", "libx264", "-bf", "2", "-c:a", "libmp3lame"]),
];

fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let done = Command::new(program).args(arguments).stdin(Stdio::null()).output().ok()?;
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success() && said.is_empty(), "{program} {arguments:?}: {said}");
    Some(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// Writes two seconds of a test picture and a tone.
fn write(path: &Path, codecs: &[&str]) -> Option<()> {
    let mut arguments = vec!["-nostdin", "-v", "error", "-y", "-f", "lavfi", "-i", "testsrc2=size=160x120:rate=25"];
    arguments.extend(["-f", "lavfi", "-i", "sine=frequency=440:sample_rate=48000", "-t", "2", "-g", "25"]);
    arguments.extend(["-pix_fmt", "yuv420p"]);
    arguments.extend(codecs);
    arguments.push(path.to_str().unwrap());
    output("ffmpeg", &arguments).map(drop)
}

/// Hash of all decoded pictures, in order.
fn pictures(path: &str) -> String {
    let arguments = ["-nostdin", "-v", "error", "-xerror", "-i", path, "-map", "0:v", "-fps_mode", "passthrough"];
    let hashes = output("ffmpeg", &[&arguments[..], &["-f", "framemd5", "-"]].concat()).unwrap();
    let hashes = hashes.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.rsplit(',').next());
    hashes.map(str::trim).collect::<Vec<_>>().join(" ")
}

/// Start of the picture after that of the sound, in seconds.
fn lip_sync(path: &str) -> f64 {
    let start = |stream| {
        let told = output(
            "ffprobe",
            &[
                "-v",
                "error",
                "-select_streams",
                stream,
                "-show_entries",
                "stream=start_time",
                "-of",
                "default=nk=1:nw=1",
                path,
            ],
        );
        told.unwrap().lines().find_map(|line| line.parse::<f64>().ok()).unwrap()
    };
    start("v:0") - start("a:0")
}

fn transport_stream(path: &Path) -> Vec<u8> {
    let mut container = Container::open(File::open(path).unwrap()).unwrap();
    assert_eq!((container.tracks().len(), container.left_out().len()), (2, 0));
    let mut out = Vec::new();
    while let Some(Muxed::Ts(packets)) = container.next_muxed().unwrap() {
        out.extend(packets);
    }
    out
}

#[test]
fn counts_of_samples_that_overflow_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("many.mp4");
    if write(&path, &["-c:v", "libx264", "-bf", "2", "-c:a", "aac"]).is_none() {
        eprintln!("SKIPPED: ffmpeg is not installed");
        return;
    }
    let file = fs::read(&path).unwrap();
    let table = file.windows(4).position(|name| name == b"ctts").unwrap();
    // Behind the version and the number of entries: the first two counts, eight bytes apart.
    for at in [table + 12, table + 20] {
        let mut bytes = file.clone();
        bytes[table + 12] = 0x80;
        bytes[at] = 0x80;
        let opened = Container::open(std::io::Cursor::new(bytes));
        assert!(matches!(opened, Err(ContainerError::Damaged(_))), "{opened:?}");
    }
}

/// As of a recording whose program was ended: the index is missing, or the last frames.
#[test]
fn what_is_cut_off_is_sent_as_far_as_it_goes() {
    let directory = tempfile::tempdir().unwrap();
    for (name, options) in [("cut.mkv", &[][..]), ("cut.mp4", &["-movflags", "faststart"])] {
        let path = directory.path().join(name);
        if write(&path, &[&["-c:v", "libx264", "-c:a", "aac"], options].concat()).is_none() {
            eprintln!("SKIPPED: ffmpeg is not installed");
            return;
        }
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() * 2 / 3]).unwrap();
        let mut container = Container::open(File::open(&path).unwrap()).unwrap();
        let mut len = 0;
        while let Some(Muxed::Ts(packets)) = container.next_muxed().unwrap() {
            len += packets.len();
        }
        assert!(container.is_cut_off() && len > bytes.len() / 2, "{name}: {len} of {}", bytes.len());
    }
    fs::write(directory.path().join("none.mp4"), [0, 0, 0, 9, b'f', b't', b'y', b'p', 0]).unwrap();
    let none = Container::open(File::open(directory.path().join("none.mp4")).unwrap());
    assert!(matches!(none, Err(ContainerError::CutOff)));
}

/// A file ended at its first damage, without a message; frames in front of it were dropped.
#[test]
fn behind_damage_the_next_cluster_or_fragment_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let fragmented = ["-movflags", "frag_keyframe+empty_moov"];
    for (name, options) in [("damaged.mkv", &["-cluster_time_limit", "400"][..]), ("damaged.mp4", &fragmented)] {
        let path = directory.path().join(name);
        if write(&path, &[&["-c:v", "libx264", "-g", "10", "-c:a", "aac"], options].concat()).is_none() {
            eprintln!("SKIPPED: ffmpeg is not installed");
            return;
        }
        let whole = fs::read(&path).unwrap();
        let read = |bytes: &[u8]| {
            let mut container = Container::open(std::io::Cursor::new(bytes)).unwrap();
            let samples = std::iter::from_fn(|| container.next_muxed().unwrap()).count();
            (samples, container.is_damaged())
        };
        let (all, is_damaged) = read(&whole);
        assert!(!is_damaged && all > 50, "{name}: {all}");
        let mut noticed = 0;
        // Behind the header.
        for place in (whole.len() / 5..whole.len() * 4 / 5).step_by(whole.len() / 97) {
            let mut bytes = whole.clone();
            bytes[place..place + 200].fill(0);
            let (samples, is_damaged) = read(&bytes);
            assert!(samples > all * 6 / 10, "{name}: {samples} of {all} with damage at {place} of {}", whole.len());
            noticed += u32::from(is_damaged);
        }
        assert!(noticed > 2, "{name}: damage was noticed {noticed} times");
    }
}

#[test]
fn pictures_and_sound_of_containers_stay_as_they_are() {
    if Command::new("ffmpeg").arg("-version").output().is_err() {
        println!("skipped pictures_and_sound_of_containers_stay_as_they_are: ffmpeg is not installed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for (name, codecs) in CASES {
        let source = folder.path().join(name);
        write(&source, codecs).unwrap();
        let stream = folder.path().join("out.ts");
        fs::write(&stream, transport_stream(&source)).unwrap();
        let (source, stream) = (source.to_str().unwrap(), stream.to_str().unwrap());
        assert_eq!(pictures(source), pictures(stream), "{name}");
        assert_eq!(pictures(stream).split(' ').count(), 50, "{name}");
        // The sound decodes, too, and is where it was; Opus and AAC begin with a frame that decoders drop.
        output("ffmpeg", &["-nostdin", "-v", "error", "-xerror", "-i", stream, "-map", "0:a", "-f", "null", "-"]);
        let off = lip_sync(source) - lip_sync(stream);
        assert!(off.abs() < 0.030, "{name}: {off} s");
    }
}

#[test]
fn a_container_that_is_cut_off_is_read_as_far_as_it_goes() {
    if Command::new("ffmpeg").arg("-version").output().is_err() {
        println!("skipped a_container_that_is_cut_off_is_read_as_far_as_it_goes: ffmpeg is not installed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for (name, codecs) in [CASES[1], CASES[2]] {
        let path = folder.path().join(name);
        write(&path, codecs).unwrap();
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() * 2 / 3]).unwrap();
        let mut container = Container::open(File::open(&path).unwrap()).unwrap();
        let mut packets = 0;
        let end = loop {
            match container.next_muxed() {
                Ok(Some(_)) => packets += 1,
                end => break end,
            }
        };
        assert!(matches!(end, Ok(None) | Err(ContainerError::Damaged(_))), "{name}: {end:?}");
        assert!(packets > 20, "{name}: {packets}");
    }
}

/// Presentation times of the pictures in seconds, in their order.
fn times(path: &str) -> Vec<f64> {
    let arguments = ["-v", "error", "-select_streams", "v:0", "-show_entries", "frame=pts_time", "-of"];
    let told = output("ffprobe", &[&arguments[..], &["default=nk=1:nw=1", path]].concat()).unwrap();
    told.lines().filter_map(|line| line.parse().ok()).collect()
}

#[test]
fn raw_h265_gets_the_times_of_its_order() {
    if Command::new("ffmpeg").arg("-version").output().is_err() {
        println!("skipped raw_h265_gets_the_times_of_its_order: ffmpeg is not installed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for options in ["log-level=none:bframes=4:open-gop=1", "log-level=none:bframes=3:open-gop=0:repeat-headers=1"] {
        let [raw, stream] = ["raw.h265", "out.ts"].map(|name| folder.path().join(name));
        let codecs = ["-map", "0:v", "-c:v", "libx265", "-x265-params", options, "-f", "hevc"];
        write(&raw, &codecs).unwrap();
        let mut reader = H265Stream::new(None);
        let mut out = Vec::new();
        for chunk in fs::read(&raw).unwrap().chunks(1_000) {
            out.extend(reader.push(chunk).unwrap());
        }
        out.extend(reader.finish().unwrap());
        fs::write(&stream, out).unwrap();
        let (raw, stream) = (raw.to_str().unwrap(), stream.to_str().unwrap());
        assert_eq!(pictures(raw), pictures(stream), "{options}");
        let times = times(stream);
        let is_even = times.windows(2).all(|pair| (pair[1] - pair[0] - 0.04).abs() < 0.001);
        assert!(times.len() == 50 && is_even, "{times:?}");
    }
}

/// Number of frames of sound, all of which decode.
fn sound(path: &str) -> u64 {
    output("ffmpeg", &["-nostdin", "-v", "error", "-xerror", "-i", path, "-map", "0:a", "-f", "null", "-"]);
    let arguments = ["-v", "error", "-select_streams", "a:0", "-count_packets", "-show_entries"];
    let told =
        output("ffprobe", &[&arguments[..], &["stream=nb_read_packets", "-of", "default=nk=1:nw=1", path]].concat());
    told.unwrap().lines().find_map(|line| line.parse().ok()).unwrap()
}

/// Sample entry of the video.
fn sample_entry(path: &str) -> String {
    let arguments = ["-v", "error", "-select_streams", "v:0", "-show_entries", "stream=codec_tag_string", "-of"];
    let told = output("ffprobe", &[&arguments[..], &["default=nk=1:nw=1", path]].concat());
    told.unwrap().trim().to_owned()
}

#[test]
fn a_transport_stream_is_recorded_as_mp4_with_its_sound() {
    if Command::new("ffmpeg").arg("-version").output().is_err() {
        println!("skipped a_transport_stream_is_recorded_as_mp4_with_its_sound: ffmpeg is not installed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for codecs in [
        &["-c:v", "libx264", "-bf", "3", "-c:a", "aac"][..],
        &["-c:v", "libx264", "-bf", "0", "-ar", "44100", "-ac", "1"],
        // Groups of pictures that are open, so that some precede the keyframe that they follow.
        &["-c:v", "libx265", "-x265-params", "log-level=none:bframes=4:open-gop=1"],
        &["-c:v", "libx265", "-x265-params", "log-level=none:bframes=0"],
    ] {
        let [source, mp4] = ["in.ts", "out.mp4"].map(|name| folder.path().join(name));
        let codecs: Vec<&str> = codecs.iter().copied().chain(["-c:a", "aac", "-f", "mpegts"]).collect();
        write(&source, &codecs).unwrap();
        let mut writer = TsMp4Writer::default();
        let bytes = fs::read(&source).unwrap();
        let mut file = Vec::new();
        // A PES packet of the video or of the audio at a time, as the playout gives them out.
        let mut at = 0;
        for end in (188..=bytes.len()).step_by(188) {
            let is_start = bytes.get(end + 1).is_none_or(|flags| flags & 0x40 != 0);
            let is_same = bytes
                .get(end..end + 3)
                .is_some_and(|next| next[1] & 0x1f == bytes[end - 187] & 0x1f && next[2] == bytes[end - 186]);
            if is_start || !is_same {
                writer.push(&bytes[at..end]).unwrap();
                file.extend(writer.take());
                at = end;
            }
        }
        writer.finish();
        file.extend(writer.take());
        fs::write(&mp4, file).unwrap();
        let (source, mp4) = (source.to_str().unwrap(), mp4.to_str().unwrap());
        assert_eq!(pictures(source), pictures(mp4));
        let wanted = if codecs.contains(&"libx265") { "hvc1" } else { "avc1" };
        assert_eq!(sample_entry(mp4), wanted);
        // The sound before the first picture is left out.
        let [all, recorded] = [source, mp4].map(sound);
        assert!(recorded <= all && recorded + 8 > all, "{recorded} of {all} frames of sound");
        let off = lip_sync(source) - lip_sync(mp4);
        assert!(off.abs() < 0.030, "{off} s");
    }
}

/// Identifiers of elements of Matroska (RFC 9559 §27.1), with their markers.
const SEGMENT: u32 = 0x1853_8067;
const CLUSTER: u32 = 0x1f43_b675;
const TRACKS: u32 = 0x1654_ae6b;
const TRACK_ENTRY: u32 = 0xae;
const TRACK_NUMBER: u32 = 0xd7;
const BLOCK_GROUP: u32 = 0xa0;
const BLOCKS: [u32; 2] = [0xa1, 0xa3];
/// Indices, whose places change: SeekHead and Cues.
const INDICES: [u32; 2] = [0x114d_9b74, 0x1c53_bb6b];

/// Element with a length of eight bytes.
fn element(id: u32, content: &[u8]) -> Vec<u8> {
    let id: Vec<u8> = id.to_be_bytes().into_iter().skip_while(|byte| *byte == 0).collect();
    [&id[..], &(content.len() as u64 | 1 << 56).to_be_bytes(), content].concat()
}

/// Writes a file anew, with these bytes taken from the frames of each track, from the first on, and stored once (header stripping).
fn strip(mut bytes: &[u8], headers: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some(first) = bytes.first() {
        let (id, rest) = bytes.split_at(first.leading_zeros() as usize + 1);
        let id = id.iter().fold(0, |id, byte| id << 8 | u32::from(*byte));
        let width = rest[0].leading_zeros() as usize + 1;
        let len =
            rest[1..width].iter().fold(u64::from(rest[0]) & (0xff >> width), |len, byte| len << 8 | u64::from(*byte));
        // One of unknown length lasts until the end.
        let len = if len == (1 << (7 * width)) - 1 { rest.len() - width } else { len as usize };
        let (content, after) = rest[width..].split_at(len);
        bytes = after;
        let content = match id {
            _ if INDICES.contains(&id) => continue,
            SEGMENT | CLUSTER | TRACKS | BLOCK_GROUP => strip(content, headers),
            TRACK_ENTRY => {
                let number = content.windows(3).find(|bytes| bytes[..2] == [TRACK_NUMBER as u8, 0x81]).unwrap()[2];
                let header = headers[usize::from(number) - 1];
                let compression = [element(0x4254, &[3]), element(0x4255, header)].concat();
                let encoding = [element(0x5031, &[0]), element(0x5032, &[1]), element(0x5033, &[0])].concat();
                let encoding = [encoding, element(0x5034, &compression)].concat();
                [content, &element(0x6d80, &element(0x6240, &encoding))].concat()
            }
            _ if BLOCKS.contains(&id) => {
                // Track, time and flags are four bytes.
                let (head, frame) = content.split_at(4);
                let header = headers[usize::from(head[0] & 0x7f) - 1];
                [head, frame.strip_prefix(header).unwrap()].concat()
            }
            _ => content.to_vec(),
        };
        out.extend(element(id, &content));
    }
    out
}

/// As mkvmerge writes it: frames of AC-3 all begin with a word, and lengths of NAL units with a zero.
#[test]
fn headers_that_matroska_stores_once_stand_before_each_frame() {
    let folder = tempfile::tempdir().unwrap();
    let [source, stripped, stream] = ["in.mkv", "stripped.mkv", "out.ts"].map(|name| folder.path().join(name));
    if write(&source, &["-c:v", "libx264", "-bf", "2", "-c:a", "ac3"]).is_none() {
        eprintln!("SKIPPED: ffmpeg is not installed");
        return;
    }
    let whole = fs::read(&source).unwrap();
    fs::write(&stripped, strip(&whole, &[&[0], &[0x0b, 0x77]])).unwrap();
    fs::write(&stream, transport_stream(&stripped)).unwrap();
    let paths = [&source, &stripped, &stream].map(|path| path.to_str().unwrap());
    assert_eq!(pictures(paths[0]), pictures(paths[1]), "what ffmpeg reads");
    assert_eq!(pictures(paths[0]), pictures(paths[2]));
    assert_eq!(sound(paths[0]), sound(paths[2]));
}
